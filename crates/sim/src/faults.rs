//! What can go wrong on a machine, on request.

/// What is wrong with a machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// So many runs of the distribution's installer fail from here on.
    pub(crate) failing_installs: u32,
    /// All delays are so many times as long; 0 counts as 1.
    pub(crate) slowness: u32,
    /// No image can be had.
    pub(crate) no_images: bool,
    processes: u32,
}

impl Faults {
    /// The number of the next process.
    pub(crate) fn next_process(&mut self) -> u32 {
        self.processes += 1;
        1000 + self.processes
    }

    /// Whether this run of the installer fails.
    pub(crate) fn take_failing_install(&mut self) -> bool {
        let fails = self.failing_installs > 0;
        self.failing_installs -= u32::from(fails);
        fails
    }
}
