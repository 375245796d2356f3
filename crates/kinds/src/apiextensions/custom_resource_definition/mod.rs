//! CustomResourceDefinition: a kind of someone's own, told by its names, versions and schemas.
//!
//! A definition is served once its names are accepted. It goes in two steps: a deletion only marks it, and it stays
//! until all its objects are gone.

mod names;
mod packed;
mod schema;
mod versions;

use bytes::Bytes;

use setpoint_api::Gvr;
use setpoint_api::table::Cell;
use setpoint_schema::{Empty, Map, Tree};

use crate::at::At;
use crate::columns::{self, Column};
use crate::kind::Problem;
use crate::strategy::{Facts, Names, Rules, Scope, Strategy, Subresource};
use crate::{meta, parts};

pub(crate) use packed::{outline as stored_outline, schema as stored_schema};

/// The finalizer that holds a definition until its objects are gone.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

#[derive(Debug)]
pub struct CustomResourceDefinition;

/// Where definitions are found.
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
        Column::text("Scope", |definition, _| {
            columns::or_empty(&definition.at("spec").at("scope"))
        })
        .about("Whether its objects live in namespaces."),
        Column::text("Versions", |definition, _| {
            Cell::from(versions::print(definition))
        })
        .about("The versions that are served, and the one that is stored."),
        Column::date("Created At", |definition, _| {
            columns::or_empty(&definition.at("metadata").at("creationTimestamp"))
        })
        .about("When it was created."),
        Column::text("Group", |definition, _| {
            columns::or_empty(&definition.at("spec").at("group"))
        })
        .wide()
        .about("The group of its kind."),
        Column::text("Kind", |definition, _| {
            columns::or_empty(&definition.at("spec").at("names").at("kind"))
        })
        .wide()
        .about("Its kind."),
        Column::text("ShortNames", |definition, _| {
            let names: Vec<&str> = definition
                .at("spec")
                .at("names")
                .at("shortNames")
                .strs()
                .collect();
            Cell::from(names.join(","))
        })
        .wide()
        .about("What else its kind may be called."),
        Column::boolean("Established", |definition, _| {
            Cell::Boolean(is_established(definition))
        })
        .wide()
        .about("Whether it is served."),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules {
        unconditional_update: false,
        tracks_generation: true,
        plain_finalizers: true,
        said_stored: "v1beta1",
        kept_at: "apiextensions.k8s.io/customresourcedefinitions",
        empty: Empty::Kept,
        ..Rules::DEFAULT
    };

    fn default_fields(definition: &mut Tree) {
        let spec = definition.child("spec");
        if spec.get("conversion").is_none_or(Tree::is_null) {
            spec.set(&["conversion", "strategy"], "None");
        }
        let names = spec.child("names");
        let kind = names.str_at(&["kind"]).unwrap_or_default().to_owned();
        if !kind.is_empty() {
            names.fill("singular", kind.to_lowercase());
            names.fill("listKind", format!("{kind}List"));
        }
        let conversion = spec.at_mut(&["conversion", "webhook", "clientConfig"]);
        if let Some(service) = conversion.and_then(|config| config.find_mut("service")) {
            service.fill("port", 443);
        }
        if stored_versions(definition).is_empty() {
            store_version(definition);
        }
    }

    fn prepare_create(definition: &mut Tree, _facts: &Facts) {
        parts::drop(definition, "status");
        store_version(definition);
    }

    fn prepare_update(definition: &mut Tree, old: &Tree, _facts: &Facts) {
        parts::keep(definition, old, "status");
        store_version(definition);
    }

    fn validate(definition: &At<'_>) {
        names::validate(definition);
        versions::validate(definition);
        schema::validate(definition);
        if definition.at("status").at("storedVersions").is_empty() {
            let stored = definition.at("status").at("storedVersions");
            stored.invalid_as(None::<()>, "must have at least one stored version");
        }
        versions::validate_storage(definition);
    }

    fn validate_update(definition: &At<'_>, old: &At<'_>) {
        names::validate_update(definition, old);
        versions::validate_stored(definition);
    }

    fn validate_status(definition: &At<'_>, _old: &At<'_>) {
        versions::validate_stored(definition);
    }

    fn begin_deletion(definition: &mut Tree) {
        let mut finalizers = meta::find(definition, "finalizers")
            .and_then(Tree::as_list)
            .unwrap_or_default()
            .to_vec();
        if !finalizers.iter().any(|name| name.as_str() == Some(CLEANUP)) {
            finalizers.push(CLEANUP.into());
        }
        let at = meta::find(definition, "deletionTimestamp").cloned();
        meta::set(definition, "finalizers", finalizers);
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
        let conditions = definition.child("status").map_or_default().entry("conditions");
        let mut list = conditions.as_list().unwrap_or_default().to_vec();
        list.retain(|condition| condition.str_at(&["type"]) != Some("Terminating"));
        list.push(condition.into());
        *conditions = list.into();
    }

    const PACKS: bool = true;

    fn pack(json: &[u8]) -> Option<Vec<u8>> {
        packed::pack(json)
    }

    fn unpack(json: &Bytes) -> Result<Bytes, Problem> {
        packed::unpack(json)
    }

    // The first deletion only marks; from then on the finalizer holds it.
    fn is_held(definition: &Tree) -> bool {
        !meta::is_deleting(definition)
    }
}

fn is_established(definition: &At<'_>) -> bool {
    let mut conditions = definition.at("status").at("conditions").items();
    conditions.any(|condition| {
        condition.at("type").str() == "Established" && condition.at("status").str() == "True"
    })
}

fn stored_versions(definition: &Tree) -> &[Tree] {
    let status = definition.get("status");
    status.map_or(&[], |status| status.items("storedVersions"))
}

/// What is stored now counts as stored from now on.
fn store_version(definition: &mut Tree) {
    let versions = definition
        .get("spec")
        .map_or(&[][..], |spec| spec.items("versions"));
    let storage = |version: &&Tree| version.get("storage").and_then(Tree::as_bool) == Some(true);
    let Some(name) = versions
        .iter()
        .find(storage)
        .and_then(|version| version.get("name"))
        .cloned()
    else {
        return;
    };
    let mut stored = stored_versions(definition).to_vec();
    if !stored.contains(&name) {
        stored.push(name);
        definition.set(&["status", "storedVersions"], stored);
    }
}
