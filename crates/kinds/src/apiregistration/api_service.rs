//! APIService: which server serves one version of an API group: this server, or an aggregated API server behind a
//! Service.

use setpoint_api::table::Cell;
use setpoint_schema::{EmptyCollections, Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{
    EtcdEncoding, FieldRef, NameRule, Names, RequestFacts, Rules, Scope, Strategy, Subresource, meta, name,
    top_level,
};

use crate::core::config_map::decoded_len;

const MAX_GROUP_PRIORITY: i64 = 20_000;
const MAX_VERSION_PRIORITY: i64 = 1000;
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
            let behind = service.at(fields::SPEC).at(fields::SERVICE);
            Cell::from(if behind.is_set() {
                format!(
                    "{}/{}",
                    behind.at(fields::NAMESPACE).str(),
                    behind.at(fields::NAME).str()
                )
            } else {
                "Local".to_owned()
            })
        })
        .description("The service that serves the API, or Local."),
        Column::text("Available", |service, _| Cell::from(available(service)))
            .description("Whether the API is available."),
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT
        .name(NameRule::Custom)
        .no_unconditional_update()
        .error_storage_path("apiregistration.k8s.io/apiservices")
        .etcd_encoding(EtcdEncoding::Json)
        .empty(EmptyCollections::Keep)
        .unqualified_finalizers();

    fn default_fields(service: &mut Tree) {
        if let Some(behind) = service.child(fields::SPEC).find_mut(fields::SERVICE) {
            behind.set_default(fields::PORT, DEFAULT_PORT);
        }
    }

    /// A group version that this server serves itself is available immediately.
    fn prepare_create(service: &mut Tree, facts: &RequestFacts) {
        top_level::drop(service, fields::STATUS);
        if service
            .at(&[fields::SPEC, fields::SERVICE])
            .is_none_or(setpoint_schema::Tree::is_null)
        {
            let mut available = Tree::default();
            available.set(&[fields::TYPE], "Available");
            available.set(&[fields::STATUS], "True");
            available.set(&[fields::LAST_TRANSITION_TIME], meta::timestamp(facts.now));
            available.set(&[fields::REASON], "Local");
            available.set(&[fields::MESSAGE], "Local APIServices are always available");
            service.set(&[fields::STATUS, fields::CONDITIONS], vec![available]);
        }
    }

    fn validate(service: &FieldRef<'_>, _facts: &RequestFacts) {
        let spec = service.at(fields::SPEC);
        validate_name(&service.at(fields::METADATA).at(fields::NAME), &spec);
        validate_version(&spec);
        for (field, max) in [
            (fields::GROUP_PRIORITY_MINIMUM, MAX_GROUP_PRIORITY),
            (fields::VERSION_PRIORITY, MAX_VERSION_PRIORITY),
        ] {
            if !(1..=max).contains(&spec.at(field).int()) {
                let why = format!("must be positive and less than {max}");
                spec.at(field).invalid(&why);
            }
        }
        if spec.at(fields::SERVICE).is_set() {
            validate_remote(&spec);
        } else {
            validate_local(&spec);
        }
    }

    fn validate_status(service: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {
        for condition in service.at(fields::STATUS).at(fields::CONDITIONS).items() {
            if !STATUSES.contains(&condition.at(fields::STATUS).str()) {
                condition.at(fields::STATUS).not_supported(STATUSES);
            }
        }
    }
}

fn available(service: &FieldRef<'_>) -> String {
    let conditions = service.at(fields::STATUS).at(fields::CONDITIONS);
    let found = conditions
        .items()
        .find(|condition| condition.at(fields::TYPE).str() == "Available");
    match found {
        None => "Unknown".to_owned(),
        Some(condition) if condition.at(fields::STATUS).str() == "True" => "True".to_owned(),
        Some(condition) => format!(
            "{} ({})",
            condition.at(fields::STATUS).str(),
            condition.at(fields::REASON).str()
        ),
    }
}

fn validate_name(name: &FieldRef<'_>, spec: &FieldRef<'_>) {
    if name.is_empty() {
        return;
    }
    let violations = name::path_segment(name.str());
    let expected = format!(
        "{}.{}",
        spec.at(fields::VERSION).str(),
        spec.at(fields::GROUP).str()
    );
    if violations.is_empty() && name.str() != expected {
        name.invalid(&format!("must be `spec.version+\".\"+spec.group`: {expected:?}"));
    }
    name::report(name.str(), violations, name.errors());
}

fn validate_version(spec: &FieldRef<'_>) {
    let (group, version) = (spec.at(fields::GROUP), spec.at(fields::VERSION));
    if group.is_empty() && version.str() != "v1" {
        group.required("only v1 may have an empty group and it better be legacy kube");
    }
    if !group.is_empty() {
        name::check(&group, name::check_dns1123_subdomain);
    }
    name::check(&version, name::service);
}

fn validate_local(spec: &FieldRef<'_>) {
    let trusted = spec.at(fields::CA_BUNDLE);
    if !trusted.is_empty() {
        let shown = format!("{} bytes", decoded_len(trusted.str()));
        trusted.invalid_as(shown, "local APIServices may not have a caBundle");
    }
    if spec.at(fields::INSECURE_SKIP_TLS_VERIFY).bool() {
        spec.at(fields::INSECURE_SKIP_TLS_VERIFY)
            .invalid("local APIServices may not have insecureSkipTLSVerify");
    }
}

fn validate_remote(spec: &FieldRef<'_>) {
    let service = spec.at(fields::SERVICE);
    service.at(fields::NAMESPACE).require();
    service.at(fields::NAME).require();
    let port = service.at(fields::PORT);
    if !(1..=65535).contains(&port.int()) {
        port.invalid("port is not valid: must be between 1 and 65535, inclusive");
    }
    let insecure = spec.at(fields::INSECURE_SKIP_TLS_VERIFY);
    if insecure.bool() && !spec.at(fields::CA_BUNDLE).is_empty() {
        insecure.invalid("may not be true if caBundle is present");
    }
}
