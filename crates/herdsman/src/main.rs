//! The `herdsman` command.

fn main() {
    for crd in api::crd::all() {
        println!("{}", serde_json::to_string_pretty(&crd).unwrap_or_default());
    }
}
