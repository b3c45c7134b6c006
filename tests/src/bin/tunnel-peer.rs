//! Our end of a tunnel as a program: see [`suites::tunnel::peer`].

fn main() -> anyhow::Result<()> {
    let words = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(suites::tunnel::peer::main(words));
    runtime.shutdown_background();
    result
}
