//! Documents say what the code says.

use planner::Code;

#[test]
fn every_code_is_in_the_documents() {
    let document = include_str!("../../../../docs/troubleshooting.md");
    for code in Code::ALL {
        let line = format!("| `{code}` | {} | {} |", code.meaning(), code.remedy());
        assert!(document.contains(&line), "docs/troubleshooting.md lacks:\n{line}");
    }
}
