//! Volume types of a PersistentVolume. Exactly one must be set.

use setpoint_schema::shape::Field;
use setpoint_schema::{Map, Shape, Tree};

use crate::field::FieldRef;
use crate::shared::name;
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
    Source::new("hostPath", validate_host_path),
    Source {
        itself: "persistentDisk",
        ..Source::new("gcePersistentDisk", |disk| validate_disk(disk, "pdName"))
    },
    Source::new("awsElasticBlockStore", |disk| validate_disk(disk, "volumeID")),
    Source::new("glusterfs", validate_glusterfs),
    Source::new("flocker", validate_flocker),
    Source::new("nfs", validate_nfs),
    Source::new("rbd", |rbd| require(rbd, &["monitors", "image"])),
    Source::new("quobyte", validate_quobyte),
    Source {
        several: "cephFS",
        ..Source::new("cephfs", |cephfs| require(cephfs, &["monitors"]))
    },
    Source::new("iscsi", validate_iscsi),
    Source::new("cinder", |cinder| {
        require(cinder, &["volumeID"]);
        require_secret(&cinder.at("secretRef"));
    }),
    Source::new("fc", validate_fc),
    Source::new("flexVolume", validate_flex),
    Source::new("azureFile", validate_azure_file),
    Source::new("vsphereVolume", |volume| require(volume, &["volumePath"])),
    Source::new("photonPersistentDisk", |disk| require(disk, &["pdID"])),
    Source::new("portworxVolume", |volume| require(volume, &["volumeID"])),
    Source::new("azureDisk", validate_azure_disk),
    Source::new("scaleIO", |volume| {
        require(volume, &["gateway", "system", "volumeName"]);
    }),
    Source::new("local", validate_local),
    Source::new("storageos", validate_storageos),
    Source::new("csi", validate_csi),
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
    if let Some(path) = spec.find_mut("hostPath") {
        path.set_default("type", "");
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
        if found > 1 && source.field != "flexVolume" {
            let errors = spec.errors().at(source.several);
            errors.forbidden("may not specify more than 1 volume type");
            continue;
        }
        let value = value.with_errors(spec.errors().at(source.itself));
        if source.field == "iscsi" {
            validate_portal(&value, name);
        }
        (source.rules)(&value);
        if source.field == "local" && !spec.at("nodeAffinity").is_set() {
            let affinity = spec.at("nodeAffinity");
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
        require(secret, &["name", "namespace"]);
    }
}

fn check_no_parent_steps(path: &FieldRef<'_>) {
    if path.str().split('/').any(|step| step == "..") {
        path.invalid("must not contain '..'");
    }
}

fn validate_host_path(source: &FieldRef<'_>) {
    if !source.at("path").require() {
        return;
    }
    check_no_parent_steps(&source.at("path"));
    let kind = source.at("type");
    if kind.is_set() && !HOST_PATH_TYPES.contains(&kind.str()) {
        kind.not_supported(HOST_PATH_TYPES);
    }
}

fn validate_disk(disk: &FieldRef<'_>, id: &str) {
    disk.at(id).require();
    let partition = disk.at("partition");
    if !(0..=255).contains(&partition.int()) {
        partition.invalid("must be between 1 and 255, inclusive");
    }
}

fn validate_glusterfs(source: &FieldRef<'_>) {
    require(source, &["endpoints", "path"]);
    let namespace = source.at("endpointsNamespace");
    if namespace.is_set() && namespace.is_empty() {
        namespace.invalid("if the endpointnamespace is set, it must be a valid namespace name");
    } else if namespace.is_set() {
        name::check(&namespace, name::check_dns1123_label);
    }
}

fn validate_flocker(source: &FieldRef<'_>) {
    let (named, id) = (source.at("datasetName"), source.at("datasetUUID"));
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
    require(source, &["server", "path"]);
    if !source.at("path").str().starts_with('/') {
        source.at("path").invalid("must be an absolute path");
    }
}

fn validate_quobyte(source: &FieldRef<'_>) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let (registry, tenant) = (source.at("registry"), source.at("tenant"));
    if registry.is_empty() {
        registry.required(PAIRS);
    } else if tenant.str().len() >= 65 {
        tenant.required("must be a UUID and may not exceed a length of 64 characters");
    } else {
        for _ in registry.str().split(',').filter(|pair| !is_host_and_port(pair)) {
            registry.invalid(PAIRS);
        }
    }
    source.at("volume").require();
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
    let portal = source.at("targetPortal");
    portal.require();
    if source.at("initiatorName").is_set() && name.len() + 1 + portal.str().len() > 64 {
        let field = source.errors().at("targetportal");
        field.invalid(
            portal.str(),
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.",
        );
    }
}

fn validate_iscsi(source: &FieldRef<'_>) {
    let target = source.at("iqn");
    if target.require() && !is_initiator(target.str()) {
        target.invalid(FORM);
    }
    source.at("lun").in_range(0, 255);
    let secret = source.at("secretRef");
    let authenticates = ["chapAuthDiscovery", "chapAuthSession"];
    if authenticates.iter().any(|field| source.at(field).bool()) && !secret.is_set() {
        secret.required("");
    }
    if secret.is_set() {
        secret.at("name").require();
    }
    let initiator = source.at("initiatorName");
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
    let (names, ids, lun) = (source.at("targetWWNs"), source.at("wwids"), source.at("lun"));
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
    source.at("driver").require();
    for (option, field) in source.at("options").entries() {
        let domain = option.split_once('/').map_or(option, |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            field.invalid_as(option, "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

fn validate_azure_file(source: &FieldRef<'_>) {
    require(source, &["secretName", "shareName"]);
    let namespace = source.at("secretNamespace");
    if namespace.is_set() && namespace.is_empty() {
        namespace.required("");
    }
}

fn validate_azure_disk(source: &FieldRef<'_>) {
    require(source, &["diskName", "diskURI"]);
    let (caching, kind, uri) = (source.at("cachingMode"), source.at("kind"), source.at("diskURI"));
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
    if source.at("path").require() {
        check_no_parent_steps(&source.at("path"));
    }
}

fn validate_storageos(source: &FieldRef<'_>) {
    if source.at("volumeName").require() {
        name::check(&source.at("volumeName"), name::check_dns1123_label);
    }
    let namespace = source.at("volumeNamespace");
    if !namespace.is_empty() {
        name::check(&namespace, name::check_dns1123_label);
    }
    require_secret(&source.at("secretRef"));
}

fn validate_csi(source: &FieldRef<'_>) {
    check_driver_name(&source.at("driver"));
    source.at("volumeHandle").require();
    for field in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let secret = source.at(field);
        if !secret.is_set() {
            continue;
        }
        if secret.at("name").require() {
            name::check(&secret.at("name"), name::check_dns1123_subdomain);
        }
        if secret.at("namespace").require() {
            name::check(&secret.at("namespace"), name::check_dns1123_label);
        }
    }
}
