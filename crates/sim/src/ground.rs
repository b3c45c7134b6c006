//! What everything in a world stands on.

use std::sync::Arc;

use clock::{Entropy, SeededEntropy};

use crate::distro::Clusters;
use crate::events::Log;
use crate::network::Network;
use crate::settings::Settings;
use crate::upstream::Trusts;

/// What everything in a world stands on.
pub(crate) struct Ground {
    pub(crate) settings: Settings,
    pub(crate) network: Network,
    pub(crate) log: Log,
    pub(crate) trusts: Arc<Trusts>,
    pub(crate) clusters: Clusters,
    pub(crate) chance: Chance,
}

/// Where chance comes from: streams of their own for whoever asks, so that one does not disturb the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chance {
    /// The world's seed, and how often the world was opened: what was drawn before is not drawn again.
    pub(crate) seed: u64,
}

impl Chance {
    /// The stream of somebody.
    pub(crate) fn of(self, who: &str) -> SeededEntropy {
        // FNV-1a: any mixing will do, as long as it stays the same.
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        SeededEntropy::new(who.as_bytes().iter().fold(self.seed ^ 0xcbf2_9ce4_8422_2325, mix))
    }
}

/// So many hexadecimal digits.
pub(crate) fn hex(entropy: &mut dyn Entropy, digits: usize) -> String {
    let mut bytes = vec![0; digits.div_ceil(2)];
    entropy.fill(&mut bytes);
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    text[..digits].to_owned()
}
