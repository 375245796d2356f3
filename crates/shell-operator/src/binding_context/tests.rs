//! Tests of binding contexts. The expected texts are what shell-operator writes.

use bytes::Bytes;
use setpoint_api::{Header, Key};

use super::*;

fn object(namespace: &str, name: &str, filter_result: Option<&str>) -> ObjectAndFilterResult {
    let json = format!(r#"{{"kind":"Pod","metadata":{{"name":"{name}"}}}}"#);
    let header = Header::new(Key::new(namespace, name));
    ObjectAndFilterResult {
        object: Some(Arc::new(Stored::new(header, Bytes::from(json), 0))),
        filter_result: filter_result.map(Arc::from),
        id: ObjectId {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            kind: "Pod".to_owned(),
        },
    }
}

fn options(group: Option<&str>, include: &[&str]) -> BindingOptions {
    BindingOptions {
        name: "pods".to_owned(),
        allow_failure: false,
        queue: "main".to_owned(),
        group: group.map(str::to_owned),
        include_snapshots_from: include.iter().map(|name| (*name).to_owned()).collect(),
    }
}

#[track_caller]
fn check(context: BindingContext, snapshots: &[(&str, &[ObjectAndFilterResult])], expected: &str) {
    let snapshots = snapshots
        .iter()
        .map(|(name, objects)| ((*name).to_owned(), objects.to_vec()))
        .collect();
    let json = to_json(&[context], ConfigVersion::V1, &snapshots);
    assert_eq!(String::from_utf8(json).unwrap(), format!("[{expected}]\n"));
}

/// TO8
#[test]
fn a_start_has_only_its_name() {
    check(BindingContext::on_startup(), &[], r#"{"binding":"onStartup"}"#);
}

#[test]
fn a_schedule_has_its_snapshots() {
    check(
        BindingContext::new(&options(None, &[]), Cause::Schedule),
        &[],
        r#"{"binding":"pods","type":"Schedule"}"#,
    );
    check(
        BindingContext::new(&options(None, &["b", "a"]), Cause::Schedule),
        &[("a", &[object("ns", "x", Some("1"))])],
        r#"{"binding":"pods","snapshots":{"a":[{"filterResult":1,"object":{"kind":"Pod","metadata":{"name":"x"}}}],"b":[]},"type":"Schedule"}"#,
    );
}

#[test]
fn a_synchronization_has_all_objects() {
    let context = || BindingContext::new(&options(None, &[]), Cause::Synchronization);
    check(
        context(),
        &[],
        r#"{"binding":"pods","objects":[],"type":"Synchronization"}"#,
    );
    check(
        context(),
        &[("pods", &[object("ns", "x", None)])],
        r#"{"binding":"pods","objects":[{"object":{"kind":"Pod","metadata":{"name":"x"}}}],"type":"Synchronization"}"#,
    );
}

#[test]
fn an_event_has_the_object_and_the_result_of_the_filter() {
    let event = |object| Cause::Event {
        event: WatchEvent::Modified,
        object,
    };
    check(
        BindingContext::new(&options(None, &[]), event(object("ns", "x", Some("null")))),
        &[],
        r#"{"binding":"pods","filterResult":null,"object":{"kind":"Pod","metadata":{"name":"x"}},"type":"Event","watchEvent":"Modified"}"#,
    );
    let mut small = object("ns", "x", Some(r#"{"a":1}"#));
    small.object = None;
    check(
        BindingContext::new(&options(None, &[]), event(small)),
        &[],
        r#"{"binding":"pods","filterResult":{"a":1},"type":"Event","watchEvent":"Modified"}"#,
    );
}

#[test]
fn a_group_has_snapshots_instead_of_objects() {
    for cause in [
        Cause::Schedule,
        Cause::Synchronization,
        Cause::Event {
            event: WatchEvent::Added,
            object: object("ns", "x", None),
        },
    ] {
        check(
            BindingContext::new(&options(Some("g"), &["pods"]), cause),
            &[],
            r#"{"binding":"pods","groupName":"g","snapshots":{"pods":[]},"type":"Group"}"#,
        );
    }
}

#[test]
fn the_legacy_form_names_the_object() {
    let event = Cause::Event {
        event: WatchEvent::Deleted,
        object: object("ns", "x", None),
    };
    let json = to_json(
        &[BindingContext::new(&options(None, &[]), event)],
        ConfigVersion::V0,
        &Snapshots::new(),
    );
    assert_eq!(
        String::from_utf8(json).unwrap(),
        r#"[{"binding":"pods","resourceEvent":"delete","resourceKind":"Pod","resourceName":"x","resourceNamespace":"ns"}]"#.to_owned() + "\n",
    );
}

#[test]
fn a_review_has_its_request_and_its_snapshots() {
    let admission = |admission_type| Cause::Admission {
        admission_type,
        request: r#"{"uid":"u"}"#.into(),
    };
    check(
        BindingContext::new(&options(None, &[]), admission(AdmissionType::Validating)),
        &[],
        r#"{"binding":"pods","review":{"request":{"uid":"u"}},"type":"Validating"}"#,
    );
    // A group only adds snapshots.
    check(
        BindingContext::new(&options(Some("g"), &["a"]), admission(AdmissionType::Mutating)),
        &[("a", &[object("ns", "x", Some("1"))])],
        r#"{"binding":"pods","review":{"request":{"uid":"u"}},"snapshots":{"a":[{"filterResult":1,"object":{"kind":"Pod","metadata":{"name":"x"}}}]},"type":"Mutating"}"#,
    );
    let conversion = Cause::Conversion {
        from_version: "v1".to_owned(),
        to_version: "a/v2".to_owned(),
        request: r#"{"uid":"u"}"#.into(),
    };
    check(
        BindingContext::new(&options(None, &["a"]), conversion),
        &[],
        r#"{"binding":"pods","fromVersion":"v1","review":{"request":{"uid":"u"}},"snapshots":{"a":[]},"toVersion":"a/v2","type":"Conversion"}"#,
    );
}
