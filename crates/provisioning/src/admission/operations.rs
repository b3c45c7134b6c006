//! Requests for operations, and settings of the distribution.

use api::provisioning::v1::RKEConfig;
use api::rke::v1::{ETCDSnapshotPhase, RKEControlPlaneStatus, RotateEncryptionKeysPhase, restore_mode};
use kubeapi::{FieldError, Path};

use super::{Answers, Findings, Request};
use crate::restore as snapshots;

const CREATE: &str = "etcdSnapshotCreate";
const RESTORE: &str = "etcdSnapshotRestore";
const CERTIFICATES: &str = "rotateCertificates";
const KEYS: &str = "rotateEncryptionKeys";

fn path() -> Path {
    Path::new("spec").child("rkeConfig")
}

/// 14: settings can be restored from snapshots that have them.
pub(super) fn restore(request: &Request<'_>, answers: &Answers<'_>, findings: &mut Findings) {
    let (Some(old), Some(new)) = (request.old_config(), request.config()) else { return };
    let Some(asked) = new.etcd_snapshot_restore.as_ref() else { return };
    if old.etcd_snapshot_restore.as_ref() == Some(asked) {
        return;
    }
    let path = path().child(RESTORE);
    let mode = asked.restore_rke_config.as_str();
    let modes = [restore_mode::NONE, restore_mode::KUBERNETES_VERSION, restore_mode::ALL];
    if !mode.is_empty() && !modes.contains(&mode) {
        findings.bad([FieldError::not_supported(&path.child("restoreRKEConfig"), mode, modes)]);
        return;
    }
    // Data alone may come from a file that no object describes.
    let Some(name) = snapshots::wanted(&request.new.spec) else { return };
    let path = path.child("name");
    let Some(snapshot) = answers.snapshots.get(name) else {
        let namespace = request.new.metadata.namespace.as_deref().unwrap_or_default();
        let why = format!("etcd restore references missing snapshot {name} in namespace {namespace}");
        findings.bad([FieldError::invalid(&path, name, why)]);
        return;
    };
    if let Err(reason) = snapshots::rewritten(&request.new.spec, snapshot) {
        findings.bad([FieldError::invalid(&path, name, reason.to_string())]);
    }
}

/// Each operation with its generation.
fn asked(config: &RKEConfig) -> [(&'static str, Option<i64>); 4] {
    [
        (CREATE, config.etcd_snapshot_create.as_ref().map(|one| one.generation)),
        (RESTORE, config.etcd_snapshot_restore.as_ref().map(|one| one.generation)),
        (CERTIFICATES, config.rotate_certificates.as_ref().map(|one| one.generation)),
        (KEYS, config.rotate_encryption_keys.as_ref().map(|one| one.generation)),
    ]
}

/// Operations that are asked for now and were not before.
fn new_requests(request: &Request<'_>) -> Vec<&'static str> {
    let (Some(old), Some(new)) = (request.old_config(), request.config()) else { return Vec::new() };
    let differs = [
        old.etcd_snapshot_create != new.etcd_snapshot_create,
        old.etcd_snapshot_restore != new.etcd_snapshot_restore,
        old.rotate_certificates != new.rotate_certificates,
        old.rotate_encryption_keys != new.rotate_encryption_keys,
    ];
    let all = asked(new).into_iter().zip(differs);
    all.filter(|((_, generation), differs)| *differs && generation.is_some())
        .map(|((name, _), _)| name)
        .collect()
}

/// A generation that goes back would repeat an operation that nobody asked for.
pub(super) fn generations(request: &Request<'_>, _: &Answers<'_>, findings: &mut Findings) {
    let (Some(old), Some(new)) = (request.old_config(), request.config()) else { return };
    for ((name, before), (_, after)) in asked(old).into_iter().zip(asked(new)) {
        let (Some(before), Some(after)) = (before, after) else { continue };
        if after < before {
            let path = path().child(name).child("generation");
            let why =
                format!("must not be lower than {before}: every new value asks for the operation again");
            findings.bad([FieldError::invalid(&path, after, why)]);
        }
    }
}

/// One operation at a time. A restore is the way out of everything, and only warned of.
pub(super) fn overlapping(request: &Request<'_>, answers: &Answers<'_>, findings: &mut Findings) {
    let requests = new_requests(request);
    if let [_, second, ..] = &requests[..] {
        let why = format!("only one operation can be asked for at a time: {}", requests.join(", "));
        findings.bad([FieldError::forbidden(&path().child(second), why)]);
    }
    let running = answers.control_plane.as_ref().and_then(|status| running(status, request));
    let (Some(running), Some(first)) = (running, requests.first()) else { return };
    match *first == RESTORE {
        true if running == RESTORE => {
            findings.warn(format!("{}: the restore that runs is begun anew", path().child(first)))
        }
        true => findings.warn(format!("{}: {running} is not finished and is given up", path().child(first))),
        false => {
            let why = format!("{running} is not finished: wait for it, or restore a snapshot");
            findings.bad([FieldError::forbidden(&path().child(first), why)]);
        }
    }
}

/// The operation that has begun and not ended.
fn running(status: &RKEControlPlaneStatus, request: &Request<'_>) -> Option<&'static str> {
    use ETCDSnapshotPhase as Snapshot;
    use RotateEncryptionKeysPhase as Keys;
    let begun = |phase: &Snapshot| !matches!(phase, Snapshot::Unset | Snapshot::Finished | Snapshot::Failed);
    let certificates = request.old_config().and_then(|old| old.rotate_certificates.as_ref());
    let certificates =
        certificates.is_some_and(|one| one.generation != status.certificate_rotation_generation);
    let all = [
        (RESTORE, begun(&status.etcd_snapshot_restore_phase)),
        (CREATE, begun(&status.etcd_snapshot_create_phase)),
        (KEYS, !matches!(status.rotate_encryption_keys_phase, Keys::Unset | Keys::Done | Keys::Failed)),
        (CERTIFICATES, certificates),
    ];
    all.into_iter().find_map(|(name, runs)| runs.then_some(name))
}

/// Hooks are keys of annotations.
pub(super) fn drain_hooks(request: &Request<'_>, _: &Answers<'_>, findings: &mut Findings) {
    let Some(config) = request.config() else { return };
    let strategy = &config.configuration.upgrade_strategy;
    let sides = [
        ("controlPlaneDrainOptions", &strategy.control_plane_drain_options),
        ("workerDrainOptions", &strategy.worker_drain_options),
    ];
    for (side, options) in sides {
        let lists =
            [("preDrainHooks", &options.pre_drain_hooks), ("postDrainHooks", &options.post_drain_hooks)];
        for (list, hooks) in lists {
            for (index, hook) in hooks.iter().enumerate() {
                let path =
                    path().child("upgradeStrategy").child(side).child(list).index(index).child("annotation");
                let wrong = kubeapi::name::qualified(&hook.annotation).into_iter();
                findings.invalid(wrong.map(|why| FieldError::invalid(&path, hook.annotation.as_str(), why)));
            }
        }
    }
}

/// Keys that are not known of the version may be slips of the pen; users should know. They are passed to the nodes all the same.
pub(super) fn known_keys(request: &Request<'_>, answers: &Answers<'_>, findings: &mut Findings) {
    let (Some(config), Some(known)) = (request.config(), &answers.known_arguments) else { return };
    let config = &config.configuration;
    let global = (path().child("machineGlobalConfig"), &config.machine_global_config);
    let selected = config.machine_selector_config.iter().enumerate().map(|(index, one)| {
        (path().child("machineSelectorConfig").index(index).child("config"), &one.config)
    });
    let version = &request.new.spec.kubernetes_version;
    for (path, settings) in [global].into_iter().chain(selected) {
        for key in settings.keys().filter(|key| !known.contains(*key)) {
            findings
                .warn(format!("{path}: {key} is not known as an argument of {version}: passed on as it is"));
        }
    }
}
