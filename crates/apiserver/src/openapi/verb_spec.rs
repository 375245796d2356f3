//! The OpenAPI operation of each verb: method, action, operation id, query parameters and response codes.

use setpoint_api::{ApiVerb, ApiVerbs, HttpVerb};

use super::parameters;

/// The operation of a verb.
pub(super) struct VerbSpec {
    pub verb: ApiVerb,
    /// `x-kubernetes-action`.
    pub action: &'static str,
    pub query: &'static [(&'static str, &'static str)],
    pub codes: &'static [(&'static str, &'static str)],
}

const OK: (&str, &str) = ("200", "OK");
const CREATED: (&str, &str) = ("201", "Created");
const ACCEPTED: (&str, &str) = ("202", "Accepted");

pub(super) const GET: VerbSpec = VerbSpec::new(ApiVerb::Get, parameters::READ, &[OK]);
pub(super) const LIST: VerbSpec = VerbSpec::new(ApiVerb::List, parameters::LIST, &[OK]);
pub(super) static VERB_SPECS: [VerbSpec; 7] = [
    LIST,
    VerbSpec::new(ApiVerb::Create, parameters::WRITE, &[OK, CREATED, ACCEPTED]),
    VerbSpec::new(ApiVerb::DeleteCollection, parameters::DELETE_ALL, &[OK]),
    GET,
    VerbSpec::new(ApiVerb::Update, parameters::WRITE, &[OK, CREATED]),
    VerbSpec::new(ApiVerb::Patch, parameters::PATCH, &[OK, CREATED]),
    VerbSpec::new(ApiVerb::Delete, parameters::DELETE, &[OK, ACCEPTED]),
];
/// The operations of custom kinds: a patch creates nothing that clients should expect, and reads take a version.
pub(super) static CUSTOM_VERB_SPECS: [VerbSpec; 7] = [
    LIST,
    VerbSpec::new(ApiVerb::Create, parameters::WRITE, &[OK, CREATED, ACCEPTED]),
    VerbSpec::new(ApiVerb::DeleteCollection, parameters::LIST, &[OK]),
    VerbSpec::new(ApiVerb::Get, parameters::READ_CUSTOM, &[OK]),
    VerbSpec::new(ApiVerb::Update, parameters::WRITE, &[OK, CREATED]),
    VerbSpec::new(ApiVerb::Patch, parameters::PATCH, &[OK]),
    VerbSpec::new(ApiVerb::Delete, parameters::DELETE, &[OK, ACCEPTED]),
];
pub(super) const WATCH: VerbSpec = VerbSpec::new(ApiVerb::Watch, parameters::LIST, &[OK]);
pub(super) const WATCH_LIST: VerbSpec = VerbSpec {
    action: "watchlist",
    ..WATCH
};

/// The verbs of a collection; the others are those of an object.
pub(super) const ON_COLLECTION: ApiVerbs =
    ApiVerbs::new(&[ApiVerb::List, ApiVerb::Create, ApiVerb::DeleteCollection]);

impl VerbSpec {
    const fn new(
        verb: ApiVerb,
        query: &'static [(&'static str, &'static str)],
        codes: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self {
            verb,
            action: match verb {
                ApiVerb::Create | ApiVerb::Update => verb.http_verb().as_str(),
                verb => verb.as_str(),
            },
            query,
            codes,
        }
    }

    pub(super) fn method(&self) -> HttpVerb {
        self.verb.http_verb()
    }

    /// Prefix of the operation id.
    pub(super) fn prefix(&self) -> &'static str {
        match self.verb {
            ApiVerb::Get => "read",
            ApiVerb::Update => "replace",
            ApiVerb::DeleteCollection => ApiVerb::Delete.as_str(),
            verb => verb.as_str(),
        }
    }
}
