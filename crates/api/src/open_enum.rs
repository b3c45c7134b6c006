//! Closed sets of words that may grow elsewhere.

/// Declares an enum of words that never makes an object unreadable: a word that is not in the set is kept as
/// `Other`, the empty word is `Unset`, and the schema lists the known ones.
macro_rules! open_enum {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $Name:ident { $( $(#[$variant_attribute:meta])* $Variant:ident ),* $(,)? }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        $visibility enum $Name {
            /// Not set.
            #[default]
            Unset,
            $( $(#[$variant_attribute])* $Variant, )*
            /// A word that this version does not know.
            Other(String),
        }

        impl $Name {
            /// The known words, in order.
            $visibility const WORDS: &'static [&'static str] = &[$( stringify!($Variant) ),*];

            /// The word on the wire; empty if not set.
            $visibility fn as_str(&self) -> &str {
                match self {
                    $Name::Unset => "",
                    $( $Name::$Variant => stringify!($Variant), )*
                    $Name::Other(word) => word,
                }
            }
        }

        impl From<&str> for $Name {
            fn from(word: &str) -> Self {
                match word {
                    "" => $Name::Unset,
                    $( stringify!($Variant) => $Name::$Variant, )*
                    other => $Name::Other(other.into()),
                }
            }
        }

        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $Name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $Name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = Option::<std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
                Ok(word.as_deref().unwrap_or_default().into())
            }
        }

        impl schemars::JsonSchema for $Name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($Name).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": Self::WORDS })
            }
        }
    };
}

#[cfg(test)]
mod tests {
    open_enum! {
        /// An example.
        enum Colour { Red, Green }
    }

    #[test]
    fn every_word_survives() {
        for word in ["", "Red", "Green", "Mauve"] {
            let colour: Colour = serde_json::from_value(word.into()).unwrap();
            assert_eq!(serde_json::to_value(&colour).unwrap(), word);
        }
        assert_eq!(serde_json::from_str::<Colour>("null").unwrap(), Colour::Unset);
        assert_eq!(Colour::from("Red"), Colour::Red);
        assert_eq!(Colour::WORDS, ["Red", "Green"]);
    }
}
