//! The pack as a whole: every type decodes, and every reference resolves.

use super::*;
use crate::shape::{Cardinality, FieldType, ListType};
use crate::write::MAX_MEMBERS;

#[test]
fn every_type_reads_and_links_to_types_that_are_there() {
    let pack = Pack::builtin();
    assert!(pack.release.starts_with("v1."), "{}", pack.release);
    assert!(pack.shapes().count() > 900);
    for shape in pack.shapes() {
        assert!(
            shape.members().len() <= MAX_MEMBERS,
            "{} has too many members",
            shape.id
        );
        for field in &shape.fields {
            if let Some(of) = field.shape() {
                assert!(!of.id.is_empty(), "{}.{}", shape.id, field.name);
            }
            if let Some(name) = field.enum_name() {
                assert!(pack.enum_values(name).is_some(), "{name}");
            }
        }
    }
}

#[test]
fn a_kind_is_found_by_group_version_and_kind() {
    let pack = Pack::builtin();
    let shape = pack.shape_of("apps", "v1", "Deployment").unwrap();
    assert_eq!(shape.id, "api.apps.v1.Deployment");
    assert_eq!(shape.gvk.as_ref().unwrap().kind, "Deployment");
    assert!(pack.shape_of("apps", "v1", "deployment").is_none());
    assert!(pack.shape_of("", "v1", "Pod").is_some());
    for (gvk, id) in pack.kinds() {
        assert_eq!(
            pack.shape_of(gvk[0], gvk[1], gvk[2]).unwrap().id,
            pack.shape(id).id
        );
    }
}

#[test]
fn the_facts_later_steps_need_are_there() {
    let pod = Pack::builtin().shape_of("", "v1", "Pod").unwrap();
    let containers = pod.at(&["spec"]).unwrap().member("containers").unwrap();
    assert_eq!(
        (containers.cardinality, containers.number),
        (Cardinality::List, Some(2))
    );
    assert_eq!(containers.list_type, Some(ListType::Map));
    assert_eq!(containers.list_keys, ["name"]);
    assert_eq!(
        (containers.patch_strategy(), containers.merge_key()),
        (Some("merge"), Some("name"))
    );
    assert!(containers.required);
    let ports = containers.shape().unwrap().member("ports").unwrap();
    assert_eq!(ports.list_keys, ["containerPort", "protocol"]);
    assert_eq!(
        ports.shape().unwrap().member("protocol").unwrap().default,
        Some("TCP".into())
    );
    assert!(matches!(
        pod.at(&["metadata"])
            .unwrap()
            .member("creationTimestamp")
            .unwrap()
            .value_type,
        FieldType::Time
    ));
}

#[test]
fn served_versions_and_enums_can_be_listed() {
    let pack = Pack::builtin();
    let core = pack
        .group_versions()
        .iter()
        .find(|known| known.name == "v1")
        .unwrap();
    assert_eq!((core.package, core.enabled_by_default), ("api.core.v1", true));
    assert_eq!(
        pack.enum_values("api.core.v1.NamespacePhase"),
        Some(["Active", "Terminating"].as_slice())
    );
    assert_eq!(pack.enum_values("nothing"), None);
}
