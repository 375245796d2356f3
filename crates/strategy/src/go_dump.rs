//! Objects as Kubernetes' error messages dump them: JSON of the internal Go struct, every field in its order and
//! under its Go name, null or zero where it is absent, and the metadata inlined.
//!
//! The order of the fields is that of the shape; names that differ are in the tables here. The types that all groups
//! share (metadata, selectors, conditions) look as they do in the API.

use serde::{Serialize, Serializer};

use setpoint_schema::shape::{Cardinality, Field, FieldType};
use setpoint_schema::write::{write_string, write_tree};
use setpoint_schema::{Map, Shape, Tree};

use crate::field::FieldRef;

/// Prefix of the types that look the same in Go and in the API.
const SHARED: &str = "apimachinery.";

/// Go names that are not merely the API name with a capital letter.
#[rustfmt::skip]
const NAMES: &[(&str, &str)] = &[
    ("apiGroup", "APIGroup"), ("apiGroups", "APIGroups"), ("apiVersion", "APIVersion"),
    ("apiVersions", "APIVersions"), ("awsElasticBlockStore", "AWSElasticBlockStore"), ("caBundle", "CABundle"),
    ("cel", "CEL"), ("cephfs", "CephFS"), ("chapAuthDiscovery", "DiscoveryCHAPAuth"),
    ("chapAuthSession", "SessionCHAPAuth"), ("cidr", "CIDR"), ("cidrs", "CIDRs"), ("csi", "CSI"),
    ("diskURI", "DataDiskURI"), ("dnsConfig", "DNSConfig"), ("dnsPolicy", "DNSPolicy"),
    ("externalID", "DoNotUseExternalID"), ("fc", "FC"), ("fsGroup", "FSGroup"),
    ("fsGroupChangePolicy", "FSGroupChangePolicy"), ("fsGroupPolicy", "FSGroupPolicy"), ("fsType", "FSType"),
    ("gcePersistentDisk", "GCEPersistentDisk"), ("gid", "GID"), ("gmsaCredentialSpec", "GMSACredentialSpec"),
    ("gmsaCredentialSpecName", "GMSACredentialSpecName"), ("grpc", "GRPC"), ("http", "HTTP"),
    ("httpGet", "HTTPGet"), ("httpHeaders", "HTTPHeaders"), ("ip", "IP"), ("ipBlock", "IPBlock"),
    ("ipFamilies", "IPFamilies"), ("ipFamilyPolicy", "IPFamilyPolicy"), ("ipMode", "IPMode"), ("ips", "IPs"),
    ("iqn", "IQN"), ("iscsi", "ISCSI"), ("iscsiInterface", "ISCSIInterface"), ("jsonPatch", "JSONPatch"),
    ("lastState", "LastTerminationState"), ("nfs", "NFS"), ("os", "OS"), ("osImage", "OSImage"),
    ("pdName", "PDName"), ("qosClass", "QOSClass"), ("rbd", "RBD"),
    ("reportingComponent", "ReportingController"), ("seLinuxChangePolicy", "SELinuxChangePolicy"),
    ("seLinuxMount", "SELinuxMount"), ("seLinuxOptions", "SELinuxOptions"),
    ("serviceAccount", "DeprecatedServiceAccount"), ("sslEnabled", "SSLEnabled"), ("storageos", "StorageOS"),
    ("tcpSocket", "TCPSocket"), ("tls", "TLS"), ("ttlSecondsAfterFinished", "TTLSecondsAfterFinished"),
    ("tty", "TTY"), ("uid", "UID"), ("url", "URL"), ("wwids", "WWIDs"),
];

/// Go names of one type only.
const NAMES_OF: &[(&str, &str, &str)] = &[
    ("GlusterfsPersistentVolumeSource", "endpoints", "EndpointsName"),
    ("GlusterfsVolumeSource", "endpoints", "EndpointsName"),
    ("RBDPersistentVolumeSource", "monitors", "CephMonitors"),
    ("RBDPersistentVolumeSource", "image", "RBDImage"),
    ("RBDPersistentVolumeSource", "pool", "RBDPool"),
    ("RBDPersistentVolumeSource", "user", "RadosUser"),
    ("RBDVolumeSource", "monitors", "CephMonitors"),
    ("RBDVolumeSource", "image", "RBDImage"),
    ("RBDVolumeSource", "pool", "RBDPool"),
    ("RBDVolumeSource", "user", "RadosUser"),
    ("DeviceAttribute", "int", "IntValue"),
    ("DeviceAttribute", "bool", "BoolValue"),
    ("DeviceAttribute", "string", "StringValue"),
    ("DeviceAttribute", "version", "VersionValue"),
];

/// Fields that are not pointers in the internal type, so that they are never null.
const ALWAYS_SET: &[(&str, &str)] = &[
    ("DeploymentSpec", "replicas"),
    ("ReplicaSetSpec", "replicas"),
    ("StatefulSetSpec", "replicas"),
    ("RollingUpdateDaemonSet", "maxUnavailable"),
    ("RollingUpdateDaemonSet", "maxSurge"),
    ("RollingUpdateDeployment", "maxUnavailable"),
    ("RollingUpdateDeployment", "maxSurge"),
    ("RollingUpdateStatefulSetStrategy", "partition"),
];

/// Fields of the internal type that no version has, always null: type, the field that follows them, and their names.
const INTERNAL: &[(&str, &str, &[&str])] = &[(
    "PodCertificateRequestSpec",
    "stubPKCS10Request",
    &["PKIXPublicKey", "ProofOfPossession"],
)];

/// Dumps a referenced value, as [`FieldRef`] itself does.
#[derive(Debug)]
pub struct GoDump<'a>(pub &'a FieldRef<'a>);

impl Serialize for GoDump<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// An object of this shape on one line.
pub fn dump(shape: &Shape, value: &Tree) -> String {
    encoded(value, |out| write_object(shape, value, out))
}

/// An object of this shape, one field a line, indented by one space per level.
pub fn dump_pretty(shape: &Shape, value: &Tree) -> String {
    indent(&dump(shape, value))
}

/// An item of a list or map.
pub(crate) fn dump_item(field: &Field, value: &Tree) -> String {
    encoded(value, |out| write_item(field, value, out))
}

/// All that a field holds; an absent value shows as the zero value of its type.
pub(crate) fn dump_field(field: &Field, value: &Tree) -> String {
    encoded(value, |out| write_field(field, false, value, out))
}

/// A value of unknown type.
pub(crate) fn dump_raw(value: &Tree) -> String {
    encoded(value, |out| write_tree(value, out))
}

/// A string by itself is only quoted; inside anything else the canonical form escapes more.
fn encoded(value: &Tree, write: impl FnOnce(&mut Vec<u8>)) -> String {
    if let Some(text) = value.as_str() {
        return serde_json::to_string(text).unwrap_or_default();
    }
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).expect("JSON is UTF-8")
}

fn write_object(shape: &Shape, value: &Tree, out: &mut Vec<u8>) {
    if shape.id.starts_with(SHARED) {
        return write_shared(shape, value, out);
    }
    out.push(b'{');
    let start = out.len();
    let skipped = if shape.type_meta { 2 } else { 0 };
    for member in &shape.members()[skipped..] {
        let inner = value.get(&member.name).unwrap_or(&Tree::Null);
        if member.name == "metadata" {
            write_metadata(member, inner, start, out);
            continue;
        }
        for name in internal_fields(shape.type_name(), &member.name) {
            separate(start, out);
            write_string(name, out);
            out.extend_from_slice(b":null");
        }
        separate(start, out);
        write_string(&name_of(shape.type_name(), &member.name), out);
        out.push(b':');
        let always = ALWAYS_SET.contains(&(shape.type_name(), &member.name));
        write_field(member, always, inner, out);
    }
    out.push(b'}');
}

/// The fields of the internal type before a field of the API.
fn internal_fields(of: &str, next: &str) -> &'static [&'static str] {
    let fields = INTERNAL
        .iter()
        .find(|(own, before, _)| (*own, *before) == (of, next));
    fields.map_or(&[], |(_, _, names)| names)
}

/// The fields of the metadata are inlined into the object.
fn write_metadata(member: &Field, value: &Tree, start: usize, out: &mut Vec<u8>) {
    let Some(shape) = member.shape() else { return };
    let mut inner = Vec::new();
    write_shared(shape, value, &mut inner);
    if let [b'{', fields @ .., b'}'] = inner.as_slice()
        && !fields.is_empty()
    {
        separate(start, out);
        out.extend_from_slice(fields);
    }
}

fn write_shared(shape: &Shape, value: &Tree, out: &mut Vec<u8>) {
    let none = Tree::Map(Map::default());
    let value = if value.is_null() { &none } else { value };
    setpoint_schema::write_into(shape, value, out);
}

fn write_field(field: &Field, always: bool, value: &Tree, out: &mut Vec<u8>) {
    match (field.cardinality, value) {
        (Cardinality::One, Tree::Null) if !field.ptr || always => write_zero(field, out),
        (_, Tree::Null) => out.extend_from_slice(b"null"),
        (Cardinality::One, value) => write_item(field, value, out),
        (Cardinality::List, value) => {
            out.push(b'[');
            let start = out.len();
            for item in value.as_list().unwrap_or_default() {
                separate(start, out);
                write_item(field, item, out);
            }
            out.push(b']');
        }
        (Cardinality::Map, value) => {
            out.push(b'{');
            let start = out.len();
            for (key, item) in value.as_map().into_iter().flat_map(|map| map.iter()) {
                separate(start, out);
                write_string(key, out);
                out.push(b':');
                write_item(field, item, out);
            }
            out.push(b'}');
        }
    }
}

fn write_item(field: &Field, value: &Tree, out: &mut Vec<u8>) {
    match field.shape() {
        Some(shape) => write_object(shape, value, out),
        None => write_tree(value, out),
    }
}

fn write_zero(field: &Field, out: &mut Vec<u8>) {
    let zero: &[u8] = match &field.value_type {
        FieldType::Shape(link) => return write_object(link.shape(), &Tree::Null, out),
        FieldType::String => b"\"\"",
        FieldType::Bool => b"false",
        FieldType::Int32 | FieldType::Int64 | FieldType::Double | FieldType::IntOrString => b"0",
        FieldType::Quantity => b"\"0\"",
        FieldType::Duration => b"\"0s\"",
        _ => b"null",
    };
    out.extend_from_slice(zero);
}

fn separate(start: usize, out: &mut Vec<u8>) {
    if out.len() > start {
        out.push(b',');
    }
}

fn name_of(type_name: &str, name: &str) -> String {
    let of_type = NAMES_OF
        .iter()
        .find(|(of, outside, _)| *of == type_name && *outside == name)
        .map(|(_, _, inside)| *inside);
    let known = || {
        let found = NAMES.binary_search_by(|(outside, _)| (*outside).cmp(name));
        found.ok().map(|at| NAMES[at].1)
    };
    match of_type.or_else(known) {
        Some(inside) => inside.to_owned(),
        None => name[..1].to_uppercase() + &name[1..],
    }
}

/// Indents compact JSON.
fn indent(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut quoted, mut escape) = (0, false, false);
    let mut chars = json.chars().peekable();
    while let Some(char) = chars.next() {
        if quoted {
            quoted = escape || char != '"';
            escape = !escape && char == '\\';
            out.push(char);
            continue;
        }
        match char {
            '{' | '[' => {
                out.push(char);
                if let Some(close) = chars.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(close);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth -= 1;
                line(&mut out, depth);
                out.push(char);
            }
            ',' => {
                out.push(',');
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                quoted = char == '"';
                out.push(char);
            }
        }
    }
    out
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', depth));
}

#[cfg(test)]
mod tests {
    use setpoint_api::field::Errors;
    use setpoint_schema::Pack;

    use super::*;

    fn spec() -> &'static Shape {
        let pod = Pack::builtin().shape_of("", "v1", "Pod").unwrap();
        pod.member("spec").and_then(Field::shape).unwrap()
    }

    #[test]
    fn an_object_shows_all_its_fields() {
        let mut tree = Tree::default();
        tree.set(&["name"], "a");
        let shape = spec().member("resourceClaims").and_then(Field::shape).unwrap();
        let shown = dump(shape, &tree);
        assert_eq!(
            shown,
            r#"{"Name":"a","ResourceClaimName":null,"ResourceClaimTemplateName":null}"#
        );
    }

    #[test]
    fn lines_are_indented_by_one_space() {
        let mut tree = Tree::default();
        tree.set(&["ip"], "a<b");
        tree.set(&["hostnames"], vec![Tree::from("x\"[")]);
        let shape = spec().member("hostAliases").and_then(Field::shape).unwrap();
        assert_eq!(
            dump_pretty(shape, &tree),
            "{\n \"IP\": \"a\\u003cb\",\n \"Hostnames\": [\n  \"x\\\"[\"\n ]\n}"
        );
    }

    #[test]
    fn an_error_message_shows_the_dump() {
        let errors = Errors::default();
        let mut tree = Tree::default();
        tree.set(&["name"], "a");
        let shape = spec().member("resourceClaims").and_then(Field::shape).unwrap();
        let field = FieldRef::new(&tree, shape, &errors);
        field.invalid_as(GoDump(&field), "no");
        let found = errors.into_vec();
        assert!(found[0].message.starts_with(r#"Invalid value: {"Name":"a","#));
    }

    #[track_caller]
    fn check(kind: (&str, &str, &str), json: &str, path: &[&str], expected: &str) {
        let tree = setpoint_codec::json::parse(json.as_bytes()).unwrap();
        let shape = Pack::builtin().shape_of(kind.0, kind.1, kind.2).unwrap();
        let errors = Errors::default();
        let whole = FieldRef::new(&tree, shape, &errors);
        path.iter().fold(whole, |at, step| at.at(step)).invalid("no");
        let found = errors.into_vec();
        assert_eq!(found[0].message, format!("Invalid value: {expected}: no"));
    }

    #[test]
    fn names_are_sorted_for_the_search() {
        assert!(NAMES.is_sorted_by_key(|(outside, _)| *outside));
    }

    #[test]
    fn a_nested_object_shows_every_field_by_its_go_name() {
        check(
            ("apps", "v1", "Deployment"),
            r#"{"spec":{"strategy":{"type":"Bogus"}}}"#,
            &["spec", "strategy"],
            r#"{"Type":"Bogus","RollingUpdate":null}"#,
        );
        check(
            ("apps", "v1", "Deployment"),
            r#"{"spec":{"strategy":{"type":"Bogus","rollingUpdate":{"maxSurge":"a>b"}}}}"#,
            &["spec", "strategy"],
            r#"{"Type":"Bogus","RollingUpdate":{"MaxUnavailable":0,"MaxSurge":"a\u003eb"}}"#,
        );
    }

    #[test]
    fn shared_types_look_as_in_the_api() {
        check(
            ("policy", "v1", "PodDisruptionBudget"),
            r#"{"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"x"}}}}"#,
            &["spec"],
            r#"{"MinAvailable":1,"Selector":{"matchLabels":{"app":"x"}},"MaxUnavailable":null,"UnhealthyPodEvictionPolicy":null}"#,
        );
    }

    #[test]
    fn metadata_is_inlined() {
        check(
            ("apps", "v1", "StatefulSet"),
            r#"{"spec":{"volumeClaimTemplates":[{"kind":"PersistentVolumeClaim","metadata":{"name":"v"},"status":{"phase":"Pending"}}]}}"#,
            &["spec", "volumeClaimTemplates"],
            r#"[{"name":"v","Spec":{"AccessModes":null,"Selector":null,"Resources":{"Limits":null,"Requests":null},"VolumeName":"","StorageClassName":null,"VolumeMode":null,"DataSource":null,"DataSourceRef":null,"VolumeAttributesClassName":null},"Status":{"Phase":"Pending","AccessModes":null,"Capacity":null,"Conditions":null,"AllocatedResources":null,"AllocatedResourceStatuses":null,"CurrentVolumeAttributesClassName":null,"ModifyVolumeStatus":null,"HealthStatus":null}}]"#,
        );
    }

    #[test]
    fn absent_fields_show_zero_values() {
        let deployment = ("apps", "v1", "Deployment");
        check(deployment, "{}", &["spec", "minReadySeconds"], "0");
        check(deployment, "{}", &["spec", "revisionHistoryLimit"], "null");
        check(deployment, "{}", &["metadata", "labels"], "null");
        check(
            deployment,
            r#"{"metadata":{"name":"a<b"}}"#,
            &["metadata", "name"],
            r#""a<b""#,
        );
    }
}
