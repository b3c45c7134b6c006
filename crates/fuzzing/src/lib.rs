//! Every decoder of outside bytes as a function of bytes: it must not panic, overflow a stack or run away, whatever it
//! is given. `fuzz/` has a fuzz target for each; the tests here give them what is known to be nasty, and random bytes.

mod machine;
mod pure;
mod server;
mod tunnel;

/// Something that takes outside bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What it is called: the name of its fuzz target, too.
    pub name: &'static str,
    /// Takes the bytes; panics if that goes wrong.
    pub run: fn(&[u8]),
    /// A good example, for mutations to start from.
    pub seed: &'static [u8],
}

/// The target of a name; its seed is the file of the same name.
macro_rules! target {
    ($name:literal, $run:path) => {
        Target { name: $name, run: $run, seed: include_bytes!(concat!("../../../fuzz/seeds/", $name)) }
    };
}

/// All of them.
pub const TARGETS: [Target; 27] = [
    target!("accept", pure::accept),
    target!("admission_answer", pure::admission_answer),
    target!("cel", pure::cel),
    target!("crd_schema", pure::crd_schema),
    target!("field_selector", pure::field_selector),
    target!("image_reference", pure::image_reference),
    target!("impersonation", pure::impersonation),
    target!("json_path", pure::json_path),
    target!("label_selector", pure::label_selector),
    target!("managed_fields", pure::managed_fields),
    target!("patch_json", pure::patch_json),
    target!("patch_merge", pure::patch_merge),
    target!("patch_strategic", pure::patch_strategic),
    target!("plan_document", pure::plan_document),
    target!("plan_secret", pure::plan_secret),
    target!("protobuf", pure::protobuf),
    target!("request_path", pure::request_path),
    target!("body_json", server::body_json),
    target!("body_yaml", server::body_yaml),
    target!("body_apply", server::body_apply),
    target!("continue_token", server::continue_token),
    target!("jwt", server::jwt),
    target!("tunnel_message", tunnel::message),
    target!("tunnel_session", tunnel::session),
    target!("gob", machine::gob),
    target!("machine_archive", machine::archive),
    target!("driver_download", machine::download),
];

/// The target of this name.
///
/// # Panics
/// If there is none.
pub fn target(name: &str) -> fn(&[u8]) {
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("no target {name}")).run
}
