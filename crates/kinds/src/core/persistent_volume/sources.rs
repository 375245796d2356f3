//! Volume types of a PersistentVolume. Exactly one must be set.

use setpoint_schema::shape::Field;
use setpoint_schema::{Map, Shape, Tree, fields};
use setpoint_strategy::{FieldRef, name};

use crate::storage::csi_node::check_driver_name;

const HOST_PATH_TYPES: &[&str] = &[
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];
const FORM: &str = "must be valid format";

/// A volume type: its field, its name in errors about a second type and about itself, and its validation.
struct Source {
    field: &'static str,
    several: &'static str,
    itself: &'static str,
    rules: fn(&FieldRef<'_>),
}

/// The volume types in the order of validation.
const SOURCES: &[Source] = &[
    Source::new(fields::HOST_PATH, validate_host_path),
    Source {
        itself: "persistentDisk",
        ..Source::new(fields::GCE_PERSISTENT_DISK, |disk| {
            validate_disk(disk, fields::PD_NAME)
        })
    },
    Source::new(fields::AWS_ELASTIC_BLOCK_STORE, |disk| {
        validate_disk(disk, fields::VOLUME_ID)
    }),
    Source::new(fields::GLUSTERFS, validate_glusterfs),
    Source::new(fields::FLOCKER, validate_flocker),
    Source::new(fields::NFS, validate_nfs),
    Source::new(fields::RBD, |rbd| {
        require(rbd, &[fields::MONITORS, fields::IMAGE])
    }),
    Source::new(fields::QUOBYTE, validate_quobyte),
    Source {
        several: "cephFS",
        ..Source::new(fields::CEPHFS, |cephfs| require(cephfs, &[fields::MONITORS]))
    },
    Source::new(fields::ISCSI, validate_iscsi),
    Source::new(fields::CINDER, |cinder| {
        require(cinder, &[fields::VOLUME_ID]);
        require_secret(&cinder.at(fields::SECRET_REF));
    }),
    Source::new(fields::FC, validate_fc),
    Source::new(fields::FLEX_VOLUME, validate_flex),
    Source::new(fields::AZURE_FILE, validate_azure_file),
    Source::new(fields::VSPHERE_VOLUME, |volume| {
        require(volume, &[fields::VOLUME_PATH])
    }),
    Source::new(fields::PHOTON_PERSISTENT_DISK, |disk| {
        require(disk, &[fields::PD_ID])
    }),
    Source::new(fields::PORTWORX_VOLUME, |volume| {
        require(volume, &[fields::VOLUME_ID])
    }),
    Source::new(fields::AZURE_DISK, validate_azure_disk),
    Source::new(fields::SCALE_IO, |volume| {
        require(volume, &[fields::GATEWAY, fields::SYSTEM, fields::VOLUME_NAME]);
    }),
    Source::new(fields::LOCAL, validate_local),
    Source::new(fields::STORAGEOS, validate_storageos),
    Source::new(fields::CSI, validate_csi),
];

impl Source {
    const fn new(field: &'static str, rules: fn(&FieldRef<'_>)) -> Self {
        Self {
            field,
            several: field,
            itself: field,
            rules,
        }
    }
}

/// The shape of the inlined volume source.
pub(super) fn shape(spec: &Shape) -> Option<&Shape> {
    let inlined = spec.fields.iter().find(|field| field.inline);
    inlined.and_then(Field::shape)
}

/// The volume source fields of a spec, without the others.
pub(super) fn source_fields(spec: &Tree) -> Tree {
    let is_source = |name: &str| SOURCES.iter().any(|source| source.field == name);
    let parts = spec.as_map().into_iter().flat_map(Map::iter);
    let parts = parts.filter(|(name, _)| is_source(name));
    let parts: Map = parts.map(|(name, value)| (name, value.clone())).collect();
    parts.into()
}

/// Sets the defaults of the volume source.
pub(super) fn set_defaults(spec: &mut Tree) {
    if let Some(path) = spec.find_mut(fields::HOST_PATH) {
        path.set_default(fields::TYPE, "");
    }
}

/// Reports a volume source that is missing, set twice, or invalid.
pub(super) fn validate(spec: &FieldRef<'_>, name: &str) {
    let mut found = 0;
    for source in SOURCES {
        let value = spec.at(source.field);
        if !value.is_set() {
            continue;
        }
        found += 1;
        if found > 1 && source.field != fields::FLEX_VOLUME {
            let errors = spec.errors().at(source.several);
            errors.forbidden("may not specify more than 1 volume type");
            continue;
        }
        let value = value.with_errors(spec.errors().at(source.itself));
        if source.field == fields::ISCSI {
            validate_portal(&value, name);
        }
        (source.rules)(&value);
        if source.field == fields::LOCAL && !spec.at(fields::NODE_AFFINITY).is_set() {
            let affinity = spec.at(fields::NODE_AFFINITY);
            affinity.required("Local volume requires node affinity");
        }
    }
    if found == 0 {
        spec.required("must specify a volume type");
    }
}

fn require(source: &FieldRef<'_>, fields: &[&str]) {
    for field in fields {
        source.at(field).require();
    }
}

/// A secret reference must have a name and a namespace.
fn require_secret(secret: &FieldRef<'_>) {
    if secret.is_set() {
        require(secret, &[fields::NAME, fields::NAMESPACE]);
    }
}

fn check_no_parent_steps(path: &FieldRef<'_>) {
    if path.str().split('/').any(|step| step == "..") {
        path.invalid("must not contain '..'");
    }
}

fn validate_host_path(source: &FieldRef<'_>) {
    if !source.at(fields::PATH).require() {
        return;
    }
    check_no_parent_steps(&source.at(fields::PATH));
    let kind = source.at(fields::TYPE);
    if kind.is_set() && !HOST_PATH_TYPES.contains(&kind.str()) {
        kind.not_supported(HOST_PATH_TYPES);
    }
}

fn validate_disk(disk: &FieldRef<'_>, id: &str) {
    disk.at(id).require();
    let partition = disk.at(fields::PARTITION);
    if !(0..=255).contains(&partition.int()) {
        partition.invalid("must be between 1 and 255, inclusive");
    }
}

fn validate_glusterfs(source: &FieldRef<'_>) {
    require(source, &[fields::ENDPOINTS, fields::PATH]);
    let namespace = source.at(fields::ENDPOINTS_NAMESPACE);
    if namespace.is_set() && namespace.is_empty() {
        namespace.invalid("if the endpointnamespace is set, it must be a valid namespace name");
    } else if namespace.is_set() {
        name::check(&namespace, name::check_dns1123_label);
    }
}

fn validate_flocker(source: &FieldRef<'_>) {
    let (named, id) = (source.at(fields::DATASET_NAME), source.at(fields::DATASET_UUID));
    if named.is_empty() && id.is_empty() {
        source.required("one of datasetName and datasetUUID is required");
    }
    if !named.is_empty() && !id.is_empty() {
        source.invalid_as(
            "resource",
            "datasetName and datasetUUID can not be specified simultaneously",
        );
    }
    if named.str().contains('/') {
        named.invalid("must not contain '/'");
    }
}

fn validate_nfs(source: &FieldRef<'_>) {
    require(source, &[fields::SERVER, fields::PATH]);
    if !source.at(fields::PATH).str().starts_with('/') {
        source.at(fields::PATH).invalid("must be an absolute path");
    }
}

fn validate_quobyte(source: &FieldRef<'_>) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let (registry, tenant) = (source.at(fields::REGISTRY), source.at(fields::TENANT));
    if registry.is_empty() {
        registry.required(PAIRS);
    } else if tenant.str().len() >= 65 {
        tenant.required("must be a UUID and may not exceed a length of 64 characters");
    } else {
        for _ in registry.str().split(',').filter(|pair| !is_host_and_port(pair)) {
            registry.invalid(PAIRS);
        }
    }
    source.at(fields::VOLUME).require();
}

fn is_host_and_port(text: &str) -> bool {
    match text.rsplit_once(':') {
        Some((host, _)) if host.starts_with('[') => host.ends_with(']'),
        Some((host, _)) => !host.contains([':', '[', ']']),
        None => false,
    }
}

/// An initiator name is combined with the volume's name, so their length is limited together.
fn validate_portal(source: &FieldRef<'_>, name: &str) {
    let portal = source.at(fields::TARGET_PORTAL);
    portal.require();
    if source.at(fields::INITIATOR_NAME).is_set() && name.len() + 1 + portal.str().len() > 64 {
        let field = source.errors().at("targetportal");
        field.invalid(
            portal.str(),
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.",
        );
    }
}

fn validate_iscsi(source: &FieldRef<'_>) {
    let target = source.at(fields::IQN);
    if target.require() && !is_initiator(target.str()) {
        target.invalid(FORM);
    }
    source.at(fields::LUN).in_range(0, 255);
    let secret = source.at(fields::SECRET_REF);
    let authenticates = [fields::CHAP_AUTH_DISCOVERY, fields::CHAP_AUTH_SESSION];
    if authenticates.iter().any(|field| source.at(field).bool()) && !secret.is_set() {
        secret.required("");
    }
    if secret.is_set() {
        secret.at(fields::NAME).require();
    }
    let initiator = source.at(fields::INITIATOR_NAME);
    if initiator.is_set() && !is_initiator(initiator.str()) {
        let errors = source.errors().at("initiatorname");
        errors.invalid(initiator.str(), FORM);
    }
}

/// `iqn.2026-01.com.example:disk`, or `eui.` or `naa.` with a fixed number of letters and digits.
fn is_initiator(text: &str) -> bool {
    let (Some(kind), Some(rest)) = (text.get(..3), text.get(4..)) else {
        return false;
    };
    let digits = |count: usize| rest.len() == count && rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match kind {
        "eui" => digits(16),
        "naa" => digits(32),
        "iqn" => text.starts_with("iqn.") && is_dated_name(rest),
        _ => false,
    }
}

/// `2026-01.com.example:disk`.
fn is_dated_name(text: &str) -> bool {
    let Some((date, rest)) = text.split_once('.') else {
        return false;
    };
    let bytes = date.as_bytes();
    let dated = bytes.len() == 7
        && bytes[4] == b'-'
        && bytes
            .iter()
            .enumerate()
            .all(|(at, byte)| at == 4 || byte.is_ascii_digit());
    let Some((domain, unique)) = rest.split_once(':') else {
        return false;
    };
    let in_domain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    let in_unique = |char: char| !char.is_whitespace() && !",;*&$|".contains(char);
    dated
        && !domain.is_empty()
        && domain.bytes().all(in_domain)
        && !unique.is_empty()
        && unique.chars().all(in_unique)
}

fn validate_fc(source: &FieldRef<'_>) {
    let (names, ids, lun) = (
        source.at(fields::TARGET_WWNS),
        source.at(fields::WWIDS),
        source.at(fields::LUN),
    );
    match (names.is_empty(), ids.is_empty()) {
        (true, true) => names.required("must specify either targetWWNs or wwids, but not both"),
        (false, false) => names.invalid("targetWWNs and wwids can not be specified simultaneously"),
        _ => {}
    }
    if names.is_empty() {
        return;
    }
    if lun.is_set() {
        lun.in_range(0, 255);
    } else {
        lun.required("lun is required if targetWWNs is specified");
    }
}

fn validate_flex(source: &FieldRef<'_>) {
    source.at(fields::DRIVER).require();
    for (option, field) in source.at(fields::OPTIONS).entries() {
        let domain = option.split_once('/').map_or(option, |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            field.invalid_as(option, "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

fn validate_azure_file(source: &FieldRef<'_>) {
    require(source, &[fields::SECRET_NAME, fields::SHARE_NAME]);
    let namespace = source.at(fields::SECRET_NAMESPACE);
    if namespace.is_set() && namespace.is_empty() {
        namespace.required("");
    }
}

fn validate_azure_disk(source: &FieldRef<'_>) {
    require(source, &[fields::DISK_NAME, fields::DISK_URI]);
    let (caching, kind, uri) = (
        source.at(fields::CACHING_MODE),
        source.at(fields::KIND),
        source.at(fields::DISK_URI),
    );
    caching.one_of(&["None", "ReadOnly", "ReadWrite"]);
    kind.one_of(&["Dedicated", "Managed", "Shared"]);
    if !kind.is_set() {
        return;
    }
    let managed = kind.str() == "Managed";
    if managed && !uri.str().starts_with("/subscriptions/") {
        uri.not_supported(&[
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ]);
    }
    if !managed && !uri.str().starts_with("https://") {
        uri.not_supported(&["https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"]);
    }
}

fn validate_local(source: &FieldRef<'_>) {
    if source.at(fields::PATH).require() {
        check_no_parent_steps(&source.at(fields::PATH));
    }
}

fn validate_storageos(source: &FieldRef<'_>) {
    if source.at(fields::VOLUME_NAME).require() {
        name::check(&source.at(fields::VOLUME_NAME), name::check_dns1123_label);
    }
    let namespace = source.at(fields::VOLUME_NAMESPACE);
    if !namespace.is_empty() {
        name::check(&namespace, name::check_dns1123_label);
    }
    require_secret(&source.at(fields::SECRET_REF));
}

fn validate_csi(source: &FieldRef<'_>) {
    check_driver_name(&source.at(fields::DRIVER));
    source.at(fields::VOLUME_HANDLE).require();
    for field in [
        fields::CONTROLLER_PUBLISH_SECRET_REF,
        fields::CONTROLLER_EXPAND_SECRET_REF,
        fields::NODE_PUBLISH_SECRET_REF,
        fields::NODE_EXPAND_SECRET_REF,
    ] {
        let secret = source.at(field);
        if !secret.is_set() {
            continue;
        }
        if secret.at(fields::NAME).require() {
            name::check(&secret.at(fields::NAME), name::check_dns1123_subdomain);
        }
        if secret.at(fields::NAMESPACE).require() {
            name::check(&secret.at(fields::NAMESPACE), name::check_dns1123_label);
        }
    }
}
