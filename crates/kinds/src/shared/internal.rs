//! Objects as Kubernetes holds them in memory, which some of its messages show: every field in its place and by its
//! name in the source, null or zero where it is absent.
//!
//! The order of the fields is that of the shape; only names differ, and they are the ones in the tables here.

use serde::ser::Error;
use serde::{Serialize, Serializer};

use setpoint_schema::shape::{Card, Field, Of};
use setpoint_schema::write::write_tree;
use setpoint_schema::{Shape, Tree};

use crate::at::At;

/// Names that are more than the JSON name with a capital, in whatever type.
const NAMES: &[(&str, &str)] = &[
    ("apiGroup", "APIGroup"),
    ("apiVersion", "APIVersion"),
    ("awsElasticBlockStore", "AWSElasticBlockStore"),
    ("cephfs", "CephFS"),
    ("chapAuthDiscovery", "DiscoveryCHAPAuth"),
    ("chapAuthSession", "SessionCHAPAuth"),
    ("csi", "CSI"),
    ("diskURI", "DataDiskURI"),
    ("dnsConfig", "DNSConfig"),
    ("dnsPolicy", "DNSPolicy"),
    ("fc", "FC"),
    ("fsGroup", "FSGroup"),
    ("fsGroupChangePolicy", "FSGroupChangePolicy"),
    ("fsType", "FSType"),
    ("gcePersistentDisk", "GCEPersistentDisk"),
    ("gmsaCredentialSpec", "GMSACredentialSpec"),
    ("gmsaCredentialSpecName", "GMSACredentialSpecName"),
    ("grpc", "GRPC"),
    ("httpGet", "HTTPGet"),
    ("httpHeaders", "HTTPHeaders"),
    ("ip", "IP"),
    ("iqn", "IQN"),
    ("iscsi", "ISCSI"),
    ("iscsiInterface", "ISCSIInterface"),
    ("metadata", "ObjectMeta"),
    ("nfs", "NFS"),
    ("os", "OS"),
    ("pdName", "PDName"),
    ("rbd", "RBD"),
    ("seLinuxChangePolicy", "SELinuxChangePolicy"),
    ("seLinuxOptions", "SELinuxOptions"),
    ("sslEnabled", "SSLEnabled"),
    ("storageos", "StorageOS"),
    ("tcpSocket", "TCPSocket"),
    ("tty", "TTY"),
    ("wwids", "WWIDs"),
];

/// Names of one type only.
const OWN_NAMES: &[(&str, &str, &str)] = &[
    ("GlusterfsVolumeSource", "endpoints", "EndpointsName"),
    ("PodSpec", "serviceAccount", "DeprecatedServiceAccount"),
    ("RBDVolumeSource", "image", "RBDImage"),
    ("RBDVolumeSource", "monitors", "CephMonitors"),
    ("RBDVolumeSource", "pool", "RBDPool"),
    ("RBDVolumeSource", "user", "RadosUser"),
];

/// What stands at a place, as it is held in memory: a value for [`At::invalid_as`].
#[derive(Debug)]
pub struct Internal<'a>(pub &'a At<'a>);

impl Serialize for Internal<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = match self.0.shape() {
            Some(shape) => text(shape, self.0.value()),
            None => list_text(self.0),
        };
        let raw = serde_json::value::RawValue::from_string(text).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// An object of this shape in one line.
pub fn text(shape: &Shape, value: &Tree) -> String {
    let mut out = Vec::new();
    object(shape, value, &mut out);
    escaped(out)
}

/// An object of this shape, one field a line, each level one blank further in.
pub fn pretty(shape: &Shape, value: &Tree) -> String {
    indent(&text(shape, value))
}

fn list_text(place: &At<'_>) -> String {
    let mut out = Vec::new();
    let items: Vec<At<'_>> = place.items().collect();
    match items.first().and_then(At::shape) {
        Some(shape) => brackets(b"[]", &mut out, &items, |item, out| {
            object(shape, item.value(), out)
        }),
        None => write_tree(place.value(), &mut out),
    }
    escaped(out)
}

fn object(shape: &Shape, value: &Tree, out: &mut Vec<u8>) {
    // What is shared by all groups has its JSON names in memory too.
    if shape.id.contains("meta.v1.") {
        return setpoint_schema::write_into(shape, value, out);
    }
    brackets(b"{}", out, shape.members(), |field, out| {
        out.push(b'"');
        name(shape, &field.name, out);
        out.extend_from_slice(b"\":");
        member(field, value.get(&field.name).unwrap_or(&Tree::Null), out);
    });
}

fn name(shape: &Shape, json: &str, out: &mut Vec<u8>) {
    let own = OWN_NAMES
        .iter()
        .find(|(of, name, _)| *of == shape.type_name() && *name == json)
        .map(|(_, _, own)| *own);
    let known = || {
        let at = NAMES.binary_search_by_key(&json, |(name, _)| *name);
        at.ok().map(|at| NAMES[at].1)
    };
    match own.or_else(known) {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => {
            let start = out.len();
            out.extend_from_slice(json.as_bytes());
            out[start..]
                .iter_mut()
                .take(1)
                .for_each(|first| first.make_ascii_uppercase());
        }
    }
}

fn member(field: &Field, value: &Tree, out: &mut Vec<u8>) {
    match (field.card, value) {
        (Card::List, Tree::List(items)) => brackets(b"[]", out, items, |item, out| one(&field.of, item, out)),
        (Card::Map, Tree::Map(map)) => brackets(b"{}", out, map.pairs(), |(key, item), out| {
            write_tree(&Tree::from(key.clone()), out);
            out.push(b':');
            one(&field.of, item, out);
        }),
        (Card::One, Tree::Null) if !field.ptr => zero(&field.of, out),
        (Card::One, value) if !value.is_null() => one(&field.of, value, out),
        _ => out.extend_from_slice(b"null"),
    }
}

fn one(of: &Of, value: &Tree, out: &mut Vec<u8>) {
    match of {
        Of::Shape(link) => object(link.shape(), value, out),
        _ => write_tree(value, out),
    }
}

fn zero(of: &Of, out: &mut Vec<u8>) {
    let text: &[u8] = match of {
        Of::Shape(link) => return object(link.shape(), &Tree::Null, out),
        Of::String => b"\"\"",
        Of::Bool => b"false",
        Of::Int32 | Of::Int64 | Of::Double | Of::IntOrString => b"0",
        Of::Quantity => b"\"0\"",
        Of::Duration => b"\"0s\"",
        _ => b"null",
    };
    out.extend_from_slice(text);
}

fn brackets<T>(pair: &[u8; 2], out: &mut Vec<u8>, items: &[T], write: impl Fn(&T, &mut Vec<u8>)) {
    out.push(pair[0]);
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(pair[1]);
}

/// Signs that mean something in HTML are written as numbers.
fn escaped(text: Vec<u8>) -> String {
    let text = String::from_utf8(text).expect("JSON of texts is a text");
    if !text.contains(['<', '>', '&']) {
        return text;
    }
    text.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

/// Spreads JSON without blanks over lines.
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
    fn names_are_in_order_so_that_they_are_found() {
        assert!(NAMES.is_sorted());
    }

    #[test]
    fn an_object_shows_all_its_fields() {
        let mut tree = Tree::default();
        tree.set(&["name"], "a");
        let shape = spec().member("resourceClaims").and_then(Field::shape).unwrap();
        let shown = text(shape, &tree);
        assert_eq!(
            shown,
            r#"{"Name":"a","ResourceClaimName":null,"ResourceClaimTemplateName":null}"#
        );
    }

    #[test]
    fn lines_go_in_by_one_blank() {
        let mut tree = Tree::default();
        tree.set(&["ip"], "a<b");
        tree.set(&["hostnames"], vec![Tree::from("x\"[")]);
        let shape = spec().member("hostAliases").and_then(Field::shape).unwrap();
        assert_eq!(
            pretty(shape, &tree),
            "{\n \"IP\": \"a\\u003cb\",\n \"Hostnames\": [\n  \"x\\\"[\"\n ]\n}"
        );
    }

    #[test]
    fn a_message_shows_it() {
        let errors = Errors::default();
        let mut tree = Tree::default();
        tree.set(&["name"], "a");
        let shape = spec().member("resourceClaims").and_then(Field::shape).unwrap();
        let place = At::new(&tree, shape, &errors);
        place.invalid_as(Internal(&place), "no");
        let found = errors.into_vec();
        assert!(found[0].message.starts_with(r#"Invalid value: {"Name":"a","#));
    }
}
