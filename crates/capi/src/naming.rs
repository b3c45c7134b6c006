//! Names of what is made: MachineSets and Machines.

use clock::Entropy;

/// Longest name of a MachineSet or Machine: it becomes a label's value.
const LONGEST: usize = 63;
/// Letters of a random ending.
const RANDOM: usize = 5;

/// Five letters that make a name unique.
pub fn suffix(entropy: &mut dyn Entropy) -> String {
    let mut token = api::names::token(entropy);
    token.truncate(RANDOM);
    token
}

/// The name of a new MachineSet.
pub fn machine_set(deployment: &str, suffix: &str) -> String {
    let base = format!("{deployment}-");
    format!("{}{suffix}", cut(&base, LONGEST - RANDOM))
}

/// What a name of a machine is made of.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// Name of the cluster.
    pub cluster: &'a str,
    /// Name of the MachineSet.
    pub set: &'a str,
    /// Five random letters.
    pub random: &'a str,
}

/// A template of names that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{template:?}: {problem}")]
pub struct BadTemplate {
    /// The template.
    pub template: String,
    /// What is wrong with it.
    pub problem: String,
}

/// The name of a new machine after a template; the usual one if the template is empty.
///
/// # Errors
/// If the template uses something else than `.cluster.name`, `.machineSet.name` and `.random`, or not the last one.
pub fn machine(template: &str, parts: Parts<'_>) -> Result<String, BadTemplate> {
    let template = if template.is_empty() { "{{ .machineSet.name }}-{{ .random }}" } else { template };
    let bad = |problem: String| BadTemplate { template: template.into(), problem };
    let (mut name, mut rest, mut random) = (String::new(), template, false);
    while let Some((before, after)) = rest.split_once("{{") {
        let (word, after) = after.split_once("}}").ok_or_else(|| bad("{{ is not closed".into()))?;
        name.push_str(before);
        match word.trim().trim_matches('-').trim() {
            ".cluster.name" => name.push_str(parts.cluster),
            ".machineSet.name" => name.push_str(parts.set),
            ".random" => {
                random = true;
                name.push_str(parts.random);
            }
            other => {
                return Err(bad(format!("{other} is not one of .cluster.name, .machineSet.name, .random")));
            }
        }
        rest = after;
    }
    name.push_str(rest);
    if !random {
        return Err(bad("{{ .random }} is missing: names would not be unique".into()));
    }
    if name.len() > LONGEST {
        name = format!("{}{}", cut(&name, LONGEST - RANDOM), parts.random);
    }
    Ok(name)
}

fn cut(text: &str, length: usize) -> &str {
    &text[..text.floor_char_boundary(length)]
}

#[cfg(test)]
mod tests {
    use clock::SeededEntropy;

    use super::*;

    fn named(template: &str) -> Result<String, BadTemplate> {
        machine(template, Parts { cluster: "c", set: "c-pool-abc", random: "xyz12" })
    }

    #[test]
    fn machines_are_named_after_a_template() {
        assert_eq!(named("").unwrap(), "c-pool-abc-xyz12");
        assert_eq!(named("{{.cluster.name}}-w-{{ .random }}").unwrap(), "c-w-xyz12");
        let long = format!("{}-{{{{ .random }}}}", "a".repeat(70));
        assert_eq!(named(&long).unwrap(), format!("{}xyz12", "a".repeat(58)));
        assert!(named("fixed").unwrap_err().to_string().contains(".random"));
        assert!(named("{{ .node }}-{{ .random }}").is_err());
        assert!(named("{{ .random").is_err());
    }

    #[test]
    fn sets_are_named_after_their_deployment() {
        assert_eq!(machine_set("pool", "abcde"), "pool-abcde");
        assert_eq!(machine_set(&"a".repeat(63), "abcde").len(), 63);
        assert_eq!(suffix(&mut SeededEntropy::new(1)).len(), 5);
    }
}
