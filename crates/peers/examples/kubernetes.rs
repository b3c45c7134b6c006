//! A throw-away Kubernetes to try things on: `cargo run -p peers --example kubernetes`.

use std::io::Read;

use peers::Kubernetes;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let kubernetes = Kubernetes::start()?;
    println!("export KUBECONFIG={}", kubernetes.kubeconfig_path().display());
    println!("alias kubectl={}", kubernetes.kubectl().get_program().display());
    println!("It runs until its input ends (Ctrl-D).");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    kubernetes.stop();
    Ok(())
}
