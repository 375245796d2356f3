//! APIService: who serves one version of one group: this server, or a service behind it.

use setpoint_api::table::Cell;
use setpoint_schema::{Empty, Tree};

use crate::at::At;
use crate::columns::{self, Column};
use crate::core::config_map::decoded_len;
use crate::meta;
use crate::parts;
use crate::shared::name;
use crate::strategy::{Facts, NameRule, Names, Rules, Scope, Strategy, Subresource};

const MOST_GROUP_PRIORITY: i64 = 20_000;
const MOST_VERSION_PRIORITY: i64 = 1000;
const DEFAULT_PORT: i64 = 443;
const STATUSES: &[&str] = &["True", "False", "Unknown"];

#[derive(Debug)]
pub struct APIService;

impl Strategy for APIService {
    const KIND: (&'static str, &'static str, &'static str) = ("apiregistration.k8s.io", "v1", "APIService");
    const NAMES: Names = Names::new("apiservices", "apiservice").categories(&["api-extensions"]);
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Service", |service, _| {
            let behind = service.at("spec").at("service");
            Cell::from(if behind.is_set() {
                format!("{}/{}", behind.at("namespace").str(), behind.at("name").str())
            } else {
                "Local".to_owned()
            })
        })
        .about("Who serves it."),
        Column::text("Available", |service, _| Cell::from(available(service)))
            .about("Whether it can be reached."),
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules {
        name: NameRule::Own,
        unconditional_update: false,
        kept_at: "apiregistration.k8s.io/apiservices",
        empty: Empty::Kept,
        plain_finalizers: true,
        ..Rules::DEFAULT
    };

    fn default_fields(service: &mut Tree) {
        if let Some(behind) = service.child("spec").find_mut("service") {
            behind.fill("port", DEFAULT_PORT);
        }
    }

    /// What this server serves itself is there at once.
    fn prepare_create(service: &mut Tree, facts: &Facts) {
        parts::drop(service, "status");
        if service
            .at(&["spec", "service"])
            .is_none_or(setpoint_schema::Tree::is_null)
        {
            let mut available = Tree::default();
            available.set(&["type"], "Available");
            available.set(&["status"], "True");
            available.set(&["lastTransitionTime"], meta::moment(facts.now));
            available.set(&["reason"], "Local");
            available.set(&["message"], "Local APIServices are always available");
            service.set(&["status", "conditions"], vec![available]);
        }
    }

    fn validate(service: &At<'_>) {
        let spec = service.at("spec");
        validate_name(&service.at("metadata").at("name"), &spec);
        validate_version(&spec);
        for (field, most) in [
            ("groupPriorityMinimum", MOST_GROUP_PRIORITY),
            ("versionPriority", MOST_VERSION_PRIORITY),
        ] {
            if !(1..=most).contains(&spec.at(field).int()) {
                let why = format!("must be positive and less than {most}");
                spec.at(field).invalid(&why);
            }
        }
        if spec.at("service").is_set() {
            validate_remote(&spec);
        } else {
            validate_local(&spec);
        }
    }

    fn validate_status(service: &At<'_>, _old: &At<'_>) {
        for condition in service.at("status").at("conditions").items() {
            if !STATUSES.contains(&condition.at("status").str()) {
                condition.at("status").not_supported(STATUSES);
            }
        }
    }
}

fn available(service: &At<'_>) -> String {
    let conditions = service.at("status").at("conditions");
    let found = conditions
        .items()
        .find(|condition| condition.at("type").str() == "Available");
    match found {
        None => "Unknown".to_owned(),
        Some(condition) if condition.at("status").str() == "True" => "True".to_owned(),
        Some(condition) => format!(
            "{} ({})",
            condition.at("status").str(),
            condition.at("reason").str()
        ),
    }
}

fn validate_name(own: &At<'_>, spec: &At<'_>) {
    if own.is_empty() {
        return;
    }
    let complaints = name::path_segment(own.str());
    let expected = format!("{}.{}", spec.at("version").str(), spec.at("group").str());
    if complaints.is_empty() && own.str() != expected {
        own.invalid(&format!("must be `spec.version+\".\"+spec.group`: {expected:?}"));
    }
    name::report(own.str(), complaints, own.errors());
}

fn validate_version(spec: &At<'_>) {
    let (group, version) = (spec.at("group"), spec.at("version"));
    if group.is_empty() && version.str() != "v1" {
        group.required("only v1 may have an empty group and it better be legacy kube");
    }
    if !group.is_empty() {
        name::check(&group, name::subdomain);
    }
    name::check(&version, name::service);
}

fn validate_local(spec: &At<'_>) {
    let trusted = spec.at("caBundle");
    if !trusted.is_empty() {
        let shown = format!("{} bytes", decoded_len(trusted.str()));
        trusted.invalid_as(shown, "local APIServices may not have a caBundle");
    }
    if spec.at("insecureSkipTLSVerify").bool() {
        spec.at("insecureSkipTLSVerify")
            .invalid("local APIServices may not have insecureSkipTLSVerify");
    }
}

fn validate_remote(spec: &At<'_>) {
    let service = spec.at("service");
    service.at("namespace").require();
    service.at("name").require();
    let port = service.at("port");
    if !(1..=65535).contains(&port.int()) {
        port.invalid("port is not valid: must be between 1 and 65535, inclusive");
    }
    let insecure = spec.at("insecureSkipTLSVerify");
    if insecure.bool() && !spec.at("caBundle").is_empty() {
        insecure.invalid("may not be true if caBundle is present");
    }
}
