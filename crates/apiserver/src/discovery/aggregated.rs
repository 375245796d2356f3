//! Everything at once: the two documents of `apidiscovery.k8s.io/v2`.

use serde::Serialize;
use setpoint_kinds::About;
use setpoint_kinds::strategy::Subresource;

use super::Document;
use super::groups::{self, Group};
use crate::aggregate::Other;
use crate::made::Served;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupList<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Empty,
    items: Vec<Item<'a>>,
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
struct Item<'a> {
    metadata: Named<'a>,
    versions: Vec<Version<'a>>,
}

#[derive(Serialize)]
struct Named<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
}

#[derive(Serialize)]
struct Version<'a> {
    version: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resources: Vec<Described<'a>>,
    freshness: &'static str,
}

/// A resource of this server, or one of another as that describes it.
#[derive(Serialize)]
#[serde(untagged)]
enum Described<'a> {
    Own(Resource<'a>),
    Others(&'a serde_json::Value),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Resource<'a> {
    resource: &'a str,
    response_kind: ResponseKind<'a>,
    scope: &'static str,
    singular_resource: &'a str,
    verbs: &'a [&'static str],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    short_names: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    categories: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    subresource: &'a str,
    response_kind: ResponseKind<'a>,
    verbs: &'a [&'static str],
}

/// Group and version are empty where they are the list's own.
#[derive(Serialize)]
struct ResponseKind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

/// The document of the core group.
pub(crate) fn core(served: &Served) -> Document {
    list(served, |group| group.name.is_empty())
}

/// The document of all other groups.
pub(crate) fn others(served: &Served) -> Document {
    list(served, |group| !group.name.is_empty())
}

fn list(served: &Served, wanted: fn(&Group<'_>) -> bool) -> Document {
    let groups = groups::with_others(served);
    let items = groups
        .iter()
        .filter(|group| wanted(group))
        .map(|group| item(served, group));
    Document::new(&GroupList {
        kind: "APIGroupDiscoveryList",
        api_version: "apidiscovery.k8s.io/v2",
        metadata: Empty {},
        items: items.collect(),
    })
}

fn item<'a>(served: &'a Served, group: &Group<'a>) -> Item<'a> {
    let version = |version: &&'a str| match served.others.find(group.name, version) {
        Some(other) => of_other(other, version),
        None => Version {
            version,
            resources: groups::kinds_of(&served.kinds, group.name, version)
                .iter()
                .map(|kind| Described::Own(resource(kind.about())))
                .collect(),
            freshness: "Current",
        },
    };
    Item {
        metadata: Named { name: group.name },
        versions: group.versions.iter().map(version).collect(),
    }
}

/// What another server says of its version. One that does not answer is there all the same, with nothing in it.
fn of_other<'a>(other: &'a Other, version: &'a str) -> Version<'a> {
    let learned = other.learned.iter().flat_map(|learned| &learned.resources);
    Version {
        version,
        resources: learned.map(Described::Others).collect(),
        freshness: match other.learned {
            Some(_) => "Current",
            None => "Stale",
        },
    }
}

fn resource(about: &About) -> Resource<'_> {
    let mut subresources: Vec<Part<'_>> = about
        .subresources
        .iter()
        .map(|part| self::part(about, part))
        .collect();
    subresources.sort_by_key(|part| part.subresource);
    Resource {
        resource: &about.names.plural,
        response_kind: ResponseKind {
            group: "",
            version: "",
            kind: &about.gvk.kind,
        },
        scope: if about.is_namespaced() {
            "Namespaced"
        } else {
            "Cluster"
        },
        singular_resource: &about.names.singular,
        verbs: about.rules.verbs,
        short_names: &about.names.short,
        categories: &about.names.categories,
        subresources,
    }
}

fn part<'a>(about: &'a About, part: &'a Subresource) -> Part<'a> {
    let own = part.kind.2.is_empty();
    let foreign = (part.kind.0, part.kind.1) != (about.gvk.group.as_str(), about.gvk.version.as_str());
    let response_kind = ResponseKind {
        group: if !own && foreign { part.kind.0 } else { "" },
        version: if !own && foreign { part.kind.1 } else { "" },
        kind: if own { &about.gvk.kind } else { part.kind.2 },
    };
    Part {
        subresource: part.name,
        response_kind,
        verbs: part.verbs,
    }
}
