//! CustomResourceDefinition (CRD): defines a custom kind by its names, versions and schemas.
//!
//! A CRD is served once its names are accepted. It is deleted in two steps: the deletion marks it as terminating, and
//! the finalizer keeps it until all its custom objects are deleted.

mod compression;
mod names;
mod schema;
mod versions;

use bytes::Bytes;

use setpoint_api::Gvr;
use setpoint_api::table::Cell;
use setpoint_schema::{EmptyCollections, Map, Tree};

use crate::columns::{self, Column};
use crate::field::FieldRef;
use crate::kind::InvalidObject;
use crate::strategy::{Names, RequestFacts, Rules, Scope, Strategy, Subresource};
use crate::{meta, top_level};

pub(crate) use compression::{outline as stored_outline, schema as stored_schema};

/// The finalizer that keeps a CRD until its custom objects are deleted.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

#[derive(Debug)]
pub struct CustomResourceDefinition;

/// The resource of CRDs.
pub fn resource() -> Gvr {
    let (group, version, _) = CustomResourceDefinition::KIND;
    Gvr::new(group, version, CustomResourceDefinition::NAMES.plural)
}

impl Strategy for CustomResourceDefinition {
    const KIND: (&'static str, &'static str, &'static str) =
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    const NAMES: Names = Names::new("customresourcedefinitions", "customresourcedefinition")
        .short(&["crd", "crds"])
        .categories(&["api-extensions"]);
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Scope", |crd, _| columns::or_empty(&crd.at("spec").at("scope")))
            .description("Whether custom objects are namespaced."),
        Column::text("Versions", |crd, _| Cell::from(versions::print(crd)))
            .description("The served versions, and the storage version."),
        Column::date("Created At", |crd, _| {
            columns::or_empty(&crd.at("metadata").at("creationTimestamp"))
        })
        .description("When the object was created."),
        Column::text("Group", |crd, _| columns::or_empty(&crd.at("spec").at("group")))
            .wide()
            .description("The API group."),
        Column::text("Kind", |crd, _| {
            columns::or_empty(&crd.at("spec").at("names").at("kind"))
        })
        .wide()
        .description("The kind."),
        Column::text("ShortNames", |crd, _| {
            let names: Vec<&str> = crd.at("spec").at("names").at("shortNames").strs().collect();
            Cell::from(names.join(","))
        })
        .wide()
        .description("The short names of the resource."),
        Column::boolean("Established", |crd, _| Cell::Boolean(is_established(crd)))
            .wide()
            .description("Whether the resource is served."),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules {
        unconditional_update: false,
        tracks_generation: true,
        unqualified_finalizers: true,
        discovery_storage_version: "v1beta1",
        error_storage_path: "apiextensions.k8s.io/customresourcedefinitions",
        empty: EmptyCollections::Keep,
        ..Rules::DEFAULT
    };

    fn default_fields(crd: &mut Tree) {
        let spec = crd.child("spec");
        if spec.get("conversion").is_none_or(Tree::is_null) {
            spec.set(&["conversion", "strategy"], "None");
        }
        let names = spec.child("names");
        let kind = names.str_at(&["kind"]).unwrap_or_default().to_owned();
        if !kind.is_empty() {
            names.set_default("singular", kind.to_lowercase());
            names.set_default("listKind", format!("{kind}List"));
        }
        let conversion = spec.at_mut(&["conversion", "webhook", "clientConfig"]);
        if let Some(service) = conversion.and_then(|config| config.find_mut("service")) {
            service.set_default("port", 443);
        }
        if stored_versions(crd).is_empty() {
            add_stored_version(crd);
        }
    }

    fn prepare_create(crd: &mut Tree, _facts: &RequestFacts) {
        top_level::drop(crd, "status");
        add_stored_version(crd);
    }

    fn prepare_update(crd: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep(crd, old, "status");
        add_stored_version(crd);
    }

    fn validate(crd: &FieldRef<'_>) {
        names::validate(crd);
        versions::validate(crd);
        schema::validate(crd);
        if crd.at("status").at("storedVersions").is_empty() {
            let stored = crd.at("status").at("storedVersions");
            stored.invalid_as(None::<()>, "must have at least one stored version");
        }
        versions::validate_storage(crd);
    }

    fn validate_update(crd: &FieldRef<'_>, old: &FieldRef<'_>) {
        names::validate_update(crd, old);
        versions::validate_stored(crd);
    }

    fn validate_status(crd: &FieldRef<'_>, _old: &FieldRef<'_>) {
        versions::validate_stored(crd);
    }

    fn begin_deletion(crd: &mut Tree) {
        let mut finalizers = meta::find(crd, "finalizers")
            .and_then(Tree::as_list)
            .unwrap_or_default()
            .to_vec();
        if !finalizers.iter().any(|name| name.as_str() == Some(CLEANUP)) {
            finalizers.push(CLEANUP.into());
        }
        let at = meta::find(crd, "deletionTimestamp").cloned();
        meta::set(crd, "finalizers", finalizers);
        let condition: Map = [
            ("type", Tree::from("Terminating")),
            ("status", Tree::from("True")),
            ("lastTransitionTime", at.unwrap_or_default()),
            ("reason", Tree::from("InstanceDeletionPending")),
            (
                "message",
                Tree::from(
                    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
                ),
            ),
        ]
        .into_iter()
        .collect();
        let conditions = crd.child("status").map_or_default().entry("conditions");
        let mut list = conditions.as_list().unwrap_or_default().to_vec();
        list.retain(|condition| condition.str_at(&["type"]) != Some("Terminating"));
        list.push(condition.into());
        *conditions = list.into();
    }

    const COMPRESSES: bool = true;

    fn compress(json: &[u8]) -> Option<Vec<u8>> {
        compression::compress(json)
    }

    fn decompress(json: &Bytes) -> Result<Bytes, InvalidObject> {
        compression::decompress(json)
    }

    // The first deletion only marks the CRD; from then on the finalizer keeps it.
    fn is_held(crd: &Tree) -> bool {
        !meta::is_deleting(crd)
    }
}

fn is_established(crd: &FieldRef<'_>) -> bool {
    let mut conditions = crd.at("status").at("conditions").items();
    conditions.any(|condition| {
        condition.at("type").str() == "Established" && condition.at("status").str() == "True"
    })
}

fn stored_versions(crd: &Tree) -> &[Tree] {
    let status = crd.get("status");
    status.map_or(&[], |status| status.items("storedVersions"))
}

/// Adds the storage version to `status.storedVersions`.
fn add_stored_version(crd: &mut Tree) {
    let versions = crd.get("spec").map_or(&[][..], |spec| spec.items("versions"));
    let storage = |version: &&Tree| version.get("storage").and_then(Tree::as_bool) == Some(true);
    let Some(name) = versions
        .iter()
        .find(storage)
        .and_then(|version| version.get("name"))
        .cloned()
    else {
        return;
    };
    let mut stored = stored_versions(crd).to_vec();
    if !stored.contains(&name) {
        stored.push(name);
        crd.set(&["status", "storedVersions"], stored);
    }
}
