//! A driver's flags become the fields of its kinds.

use std::collections::BTreeMap;

use api::catalogue::labels;
use api::machine::Driver;
use api::management::v3::{DynamicSchema, DynamicSchemaSpec, Field, FieldDefault};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// A flag as a driver names it over its plugin protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Name with the driver's before it: `amazonec2-access-key`.
    pub name: String,
    /// What it is.
    pub usage: String,
    /// What it takes.
    pub value: FlagValue,
}

/// What a flag takes, with its default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlagValue {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
    /// Nothing: it is there or not.
    Switch,
    /// A text, any number of times.
    List(Vec<String>),
}

/// Fields that are not like the others. They come from annotations of the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Special {
    /// Schema field to driver field: the driver wants a file where users write the content.
    pub files: BTreeMap<String, String>,
    /// Fields of the credential that anybody may see.
    pub public: Vec<String>,
    /// Fields of the credential that nobody may see.
    pub private: Vec<String>,
    /// Other fields that nobody may see.
    pub passwords: Vec<String>,
    /// Fields of the credential that need not be given.
    pub optional: Vec<String>,
}

/// Fields that hold an SSH key, in whatever driver.
pub const SSH_KEYS: [&str; 3] = ["sshKeyContents", "sshKey", "privateKeyFile"];

/// Why a driver's flags cannot be fields.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("flag {0:?} does not begin with the driver's name and a dash")]
pub struct Unprefixed(pub String);

impl Special {
    /// Reads `schemaField:driverField` pairs, separated by commas.
    pub fn read_files(text: &str) -> BTreeMap<String, String> {
        let pairs = text.split(',').filter_map(|pair| pair.split_once(':'));
        pairs.map(|(schema, driver)| (schema.trim().to_owned(), driver.trim().to_owned())).collect()
    }
}

/// The driver's schema, and the one of its credential if it has credentials.
///
/// # Errors
/// If a flag does not begin with a driver's name.
pub fn schemas(
    driver: &Driver,
    flags: &[Flag],
    special: &Special,
) -> Result<(DynamicSchema, Option<DynamicSchema>), Unprefixed> {
    let mut fields: BTreeMap<String, Field> = BTreeMap::new();
    for flag in flags {
        let name = field_name(&flag.name)?;
        let hidden = special.private.contains(&name) || special.passwords.contains(&name);
        fields.insert(name, field(flag, hidden));
    }
    for (schema_field, driver_field) in &special.files {
        let Some(mut field) = fields.remove(&camel(driver_field)) else { continue };
        if SSH_KEYS.contains(&schema_field.as_str()) || special.passwords.contains(schema_field) {
            field.type_ = "password".into();
        }
        fields.insert(schema_field.clone(), field);
    }
    let credential = credential(driver, &fields, special);
    Ok((schema(driver, driver.schema_name(), fields), credential))
}

fn credential(driver: &Driver, fields: &BTreeMap<String, Field>, special: &Special) -> Option<DynamicSchema> {
    let named = special.public.iter().chain(&special.private);
    let mut chosen: BTreeMap<String, Field> = named
        .filter_map(|name| {
            let mut field = fields.get(name)?.clone();
            field.required = !special.optional.contains(name);
            Some((name.clone(), field))
        })
        .collect();
    if chosen.is_empty() {
        return None;
    }
    if driver.name() == "amazonec2" {
        let text = Field { type_: "string".into(), create: true, update: true, ..Default::default() };
        chosen.insert("defaultRegion".into(), text);
    }
    Some(schema(driver, driver.credential_schema_name(), chosen))
}

fn schema(driver: &Driver, name: String, resource_fields: BTreeMap<String, Field>) -> DynamicSchema {
    DynamicSchema {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(BTreeMap::from([(labels::NODE_DRIVER_NAME.to_owned(), driver.name())])),
            ..Default::default()
        },
        spec: DynamicSchemaSpec { resource_fields, ..Default::default() },
        ..Default::default()
    }
}

fn field(flag: &Flag, hidden: bool) -> Field {
    let mut default = FieldDefault::default();
    let (type_, nullable) = match &flag.value {
        FlagValue::Text(text) => {
            default.string_value = text.clone();
            ("string", false)
        }
        // A text, as drivers take texts; so did Rancher from the beginning.
        FlagValue::Number(number) => {
            default.string_value = number.to_string();
            ("string", false)
        }
        FlagValue::Switch => ("boolean", false),
        FlagValue::List(items) => {
            default.string_slice_value = (!items.is_empty()).then(|| items.clone());
            ("array[string]", true)
        }
    };
    Field {
        type_: if hidden { "password".into() } else { type_.into() },
        default,
        nullable,
        create: true,
        update: true,
        description: flag.usage.clone(),
        ..Default::default()
    }
}

/// `amazonec2-access-key` is `accessKey`.
fn field_name(flag: &str) -> Result<String, Unprefixed> {
    match flag.split_once('-') {
        Some((driver, rest)) if !driver.is_empty() && !rest.is_empty() => Ok(camel(rest)),
        _ => Err(Unprefixed(flag.to_owned())),
    }
}

fn camel(kebab: &str) -> String {
    let mut parts = kebab.split('-').filter(|part| !part.is_empty());
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| {
        let mut letters = part.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase().to_string()).unwrap_or_default();
        name + &first + letters.as_str()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flag(name: &str, value: FlagValue) -> Flag {
        Flag { name: name.into(), usage: format!("usage of {name}"), value }
    }

    #[test]
    fn flags_become_fields_and_fields_become_kinds() {
        let flags = [
            flag("amazonec2-access-key", FlagValue::Text(String::new())),
            flag("amazonec2-secret-key", FlagValue::Text(String::new())),
            flag("amazonec2-region", FlagValue::Text("us-east-1".into())),
            flag("amazonec2-root-size", FlagValue::Number(16)),
            flag("amazonec2-monitoring", FlagValue::Switch),
            flag("amazonec2-security-group", FlagValue::List(vec!["rancher-nodes".into()])),
            flag("amazonec2-ssh-keypath", FlagValue::Text(String::new())),
        ];
        let special = Special {
            files: Special::read_files("sshKeyContents:sshKeypath, userdata:userdata"),
            public: vec!["accessKey".into()],
            private: vec!["secretKey".into()],
            ..Default::default()
        };
        let driver = Driver::named("amazonec2").unwrap();
        let (schema, credential) = schemas(&driver, &flags, &special).unwrap();
        assert_eq!(schema.metadata.name.as_deref(), Some("amazonec2config"));
        let fields = &schema.spec.resource_fields;
        let type_ = |name: &str| fields[name].type_.as_str();
        assert_eq!(type_("accessKey"), "string");
        assert_eq!(type_("secretKey"), "password");
        assert_eq!((type_("rootSize"), fields["rootSize"].default.string_value.as_str()), ("string", "16"));
        assert_eq!(type_("monitoring"), "boolean");
        assert_eq!(type_("securityGroup"), "array[string]");
        assert!(fields["securityGroup"].nullable);
        assert_eq!(type_("sshKeyContents"), "password", "users write the content, the driver gets a file");
        assert!(!fields.contains_key("sshKeypath"));
        let credential = credential.unwrap();
        assert_eq!(credential.metadata.name.as_deref(), Some("amazonec2credentialconfig"));
        let names: Vec<&String> = credential.spec.resource_fields.keys().collect();
        assert_eq!(names, ["accessKey", "defaultRegion", "secretKey"]);

        let kinds = api::machine::definitions(&driver, fields).unwrap();
        assert_eq!(kinds.len(), 3);
    }

    #[test]
    fn drivers_without_credentials_have_no_schema_of_them_and_bare_flags_are_refused() {
        let driver = Driver::named("sim").unwrap();
        let flags = [flag("sim-boot-delay", FlagValue::Text("1s".into()))];
        let (schema, credential) = schemas(&driver, &flags, &Special::default()).unwrap();
        assert!(schema.spec.resource_fields.contains_key("bootDelay"));
        assert_eq!(credential, None);
        let bare = [flag("url", FlagValue::Switch)];
        assert_eq!(schemas(&driver, &bare, &Special::default()).unwrap_err(), Unprefixed("url".into()));
    }
}
