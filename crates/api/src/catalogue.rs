//! Every word that Herdsman shares with others: labels, annotations, finalizers, Secrets' types and keys, condition
//! types and reasons, headers, settings, features, namespaces. They are spelt here and nowhere else.

/// Defines words as constants, and a list of them all.
macro_rules! words {
    ($( $(#[$attribute:meta])* $NAME:ident = $value:literal; )*) => {
        $( $(#[$attribute])* pub const $NAME: &str = $value; )*

        /// Every constant of this module with its value.
        pub const ALL: &[(&str, &str)] = &[$( (stringify!($NAME), $value) ),*];
    };
}

pub mod annotations;
pub mod conditions;
pub mod features;
pub mod finalizers;
pub mod headers;
pub mod labels;
pub mod namespaces;
pub mod reasons;
pub mod secrets;
pub mod settings;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    #[test]
    fn no_word_is_spelt_twice_in_a_module() {
        let modules = [
            super::annotations::ALL,
            super::conditions::ALL,
            super::features::ALL,
            super::finalizers::ALL,
            super::headers::ALL,
            super::labels::ALL,
            super::namespaces::ALL,
            super::reasons::ALL,
            super::secrets::types::ALL,
            super::secrets::keys::ALL,
            super::settings::ALL,
        ];
        for module in modules {
            let mut seen = BTreeMap::new();
            for (name, value) in module {
                assert!(!value.is_empty(), "{name} is empty");
                assert_eq!(seen.insert(value, name), None, "{name} says {value:?}, as another constant does");
            }
        }
    }

    #[test]
    fn keys_are_keys() {
        for (name, key) in super::labels::ALL.iter().chain(super::annotations::ALL) {
            let prefix = name.ends_with("_PREFIX");
            let local = key.rsplit('/').next().unwrap();
            assert_eq!(local.is_empty(), prefix, "{name}: {key}");
            assert!(local.len() <= 63, "{name}: {key}");
            assert!(
                key.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./".contains(letter)),
                "{name}: {key}"
            );
        }
    }
}
