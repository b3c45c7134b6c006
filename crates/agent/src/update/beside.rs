//! For processes of the same binary beside the agent: they go over to another one when the agent has kept it.

use std::path::Path;
use std::time::Duration;

use super::judge::TRIAL;
use super::keeper::stamp;

/// How often the binary is looked at.
const LOOK: Duration = Duration::from_secs(60);

/// Waits until another binary has lain in place of this process's for twice as long as its trial takes: the agent would have taken a
/// bad one back.
pub async fn superseded(binary: &Path) {
    let ours = stamp(binary);
    let (mut found, mut looks) = (ours, 0);
    let enough = TRIAL.as_secs().unsigned_abs() * 2 / LOOK.as_secs();
    loop {
        tokio::time::sleep(LOOK).await;
        let now = stamp(binary);
        looks = if now == found { looks + 1 } else { 0 };
        found = now;
        if found.is_some() && found != ours && looks >= enough {
            tracing::info!("going over to another binary");
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_binary_that_stays_is_gone_over_to() {
        let directory = tempfile::tempdir().unwrap();
        let binary = directory.path().join("agent");
        let install = |content: &str| {
            let new = directory.path().join("new");
            std::fs::write(&new, content).unwrap();
            std::fs::rename(new, &binary).unwrap();
        };
        install("old");
        let waiting = tokio::spawn({
            let binary = binary.clone();
            async move { superseded(&binary).await }
        });
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(!waiting.is_finished(), "nothing changed");
        install("bad");
        tokio::time::sleep(Duration::from_secs(300)).await;
        install("good");
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(!waiting.is_finished(), "it may still be taken back");
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert!(waiting.is_finished());
    }
}
