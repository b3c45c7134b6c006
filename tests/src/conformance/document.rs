//! The document that lists the cases and the differences that stay.

use std::fmt::Write;

use super::case::Theme;
use crate::kubectl::script::Script;

/// docs/conformance.md, from the tables.
pub fn document(themes: &[Theme], scripts: &[Script]) -> String {
    let count: usize = themes.iter().map(|theme| theme.cases.len()).sum();
    let mut text = format!(
        "# Conformance\n\n{INTRODUCTION}\n{count} cases. This page is made from the tables: `{REFRESH}` writes it.\n\n"
    );
    text.push_str("## Differences that stay\n\n");
    let kept = differences(themes) + &script_differences(scripts);
    text.push_str(if kept.is_empty() { "None.\n" } else { &kept });
    for theme in themes {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n## {}\n\n`tests/conformance/{}.yaml`\n\n", theme.title, theme.file);
        for case in &theme.cases {
            let _ = writeln!(text, "- {}", case.case);
        }
    }
    text.push_str(&kubectl(scripts));
    text
}

/// How the page is written.
pub const REFRESH: &str = "UPDATE_DOCS=1 cargo test -p suites --test conformance the_document";

const INTRODUCTION: &str = "\
The same requests go to a real kube-apiserver (with kube-controller-manager and etcd) and to `herdsman apiserver`, and the
same answers have to come back. The cases are tables in `tests/conformance`; the README there says how to read them.

```
cargo test -p suites --test conformance -- --ignored conformance_on_kubernetes
cargo test -p suites --test conformance -- --ignored conformance_on_herdsman
```

`CONFORMANCE_ONLY=<part of a name>` runs some of them.
";

const KUBECTL: &str = "
## Real kubectl

The oldest kubectl from 1.29 on that the machine has (`kubectl.1.NN` beside the one on the path), that of a stable Debian, the
real Kubernetes' own and Debian's newest run the commands in `tests/kubectl` on both servers: the same exit codes, and the same output but for names, times
and addresses. What the real one answered to the stable Debian's is recorded in `tests/recorded/kubectl`: `cargo xtask test` compares ours with that,
`--peers` the record with the real one. `UPDATE_RECORDED=1` writes it.

```
cargo test --workspace --test kubectl -- --ignored --nocapture
```

`KUBECTL_ONLY=<script>`, `KUBECTL_MINORS=29,34` and `KUBECTL_TARGETS=kubernetes` narrow it down; `KUBECTL_SHOW=1` prints
the output.

";

fn kubectl(scripts: &[Script]) -> String {
    let mut text = KUBECTL.to_owned();
    for script in scripts {
        let _ = writeln!(text, "- `{}`: {} ({} commands)", script.name, script.title, script.commands.len());
    }
    text
}

fn script_differences(scripts: &[Script]) -> String {
    let mut lines = String::new();
    for line in scripts.iter().flat_map(|script| &script.commands) {
        if let Some(reason) = &line.differs {
            let _ = writeln!(lines, "- `{}`: {reason}", line.run);
        }
    }
    lines
}

fn differences(themes: &[Theme]) -> String {
    let mut lines = String::new();
    for theme in themes {
        for case in &theme.cases {
            for differs in case.steps.iter().filter_map(|step| step.differs.as_ref()) {
                let _ = writeln!(lines, "- {}, {}: {}", theme.title, case.case, differs.reason);
            }
        }
    }
    lines
}
