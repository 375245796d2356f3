//! Ingress: routes hosts and paths to services.

use std::collections::BTreeSet;

use setpoint_api::field::Errors;
use setpoint_api::table::Cell;
use setpoint_schema::fields;
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Strategy, Subresource, ip, meta, name};

/// The deprecated annotation for the class.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const NO_DNS_NAME: &str = "must be a DNS name, not an IP address";
const BAD_PARTS: &[&str] = &["//", "/./", "/../", "%2f", "%2F"];
const BAD_ENDS: &[&str] = &["/..", "/."];
const HOSTS_SHOWN: usize = 3;

#[derive(Debug)]
pub struct Ingress;

impl Strategy for Ingress {
    const KIND: (&'static str, &'static str, &'static str) = ("networking.k8s.io", "v1", "Ingress");
    const NAMES: Names = Names::new("ingresses", "ingress").short(&["ing"]);
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Class", |ingress, _| {
            columns::or_none(&ingress.at(fields::SPEC).at(fields::INGRESS_CLASS_NAME))
        })
        .description("The ingress class."),
        Column::text("Hosts", |ingress, _| Cell::from(hosts(ingress))).description("The hosts."),
        Column::text("Address", |ingress, _| {
            Cell::from(addresses(&ingress.at(fields::STATUS)))
        })
        .description("The addresses of the load balancer."),
        Column::text("Ports", |ingress, _| {
            let secure = !ingress.at(fields::SPEC).at(fields::TLS).is_empty();
            Cell::from(if secure { "80, 443" } else { "80" })
        })
        .description("The ports."),
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT.tracks_generation().error_storage_path("ingress");

    fn validate(ingress: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_spec(&ingress.at(fields::SPEC), IngressValidationOptions::default());
        let class = ingress.at(fields::SPEC).at(fields::INGRESS_CLASS_NAME);
        let old = annotation(ingress);
        if let Some(old) = old.filter(|old| class.is_set() && *old != class.str()) {
            let field = ingress.errors().at(fields::ANNOTATIONS).at(CLASS_ANNOTATION);
            field.invalid(old, "must match `ingressClassName` when both are specified");
        }
    }

    fn validate_for_update(ingress: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_spec(
            &ingress.at(fields::SPEC),
            IngressValidationOptions::for_update(&old.at(fields::SPEC)),
        );
    }

    fn validate_status(ingress: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        let old = ingress_points(&old.at(fields::STATUS));
        let before: BTreeSet<&str> = old.items().map(|point| point.at(fields::IP).str()).collect();
        for point in ingress_points(&ingress.at(fields::STATUS)).items() {
            let (address, host) = (point.at(fields::IP), point.at(fields::HOSTNAME));
            if !address.is_empty() && !before.contains(address.str()) {
                ip::check(address.str(), address.errors());
            }
            check_host_name(&host);
        }
    }

    fn warnings(ingress: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
        let unnamed = !ingress.at(fields::SPEC).at(fields::INGRESS_CLASS_NAME).is_set();
        if old.is_some() || !unnamed || annotation(ingress).is_none() {
            return Vec::new();
        }
        vec![format!(
            "annotation {CLASS_ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead"
        )]
    }
}

/// Violations that an update may keep (ratcheting).
#[derive(Debug, Clone, Copy, Default)]
struct IngressValidationOptions {
    secret_names: bool,
    wildcard_rules: bool,
}

impl IngressValidationOptions {
    fn for_update(old: &FieldRef<'_>) -> Self {
        let wrong = |rule: &FieldRef<'_>| {
            let errors = Errors::default();
            let http = rule.at(fields::HTTP).with_errors(errors.clone());
            validate_paths(&http);
            rule.at(fields::HOST).str().contains('*') && !errors.is_empty()
        };
        Self {
            secret_names: old.at(fields::TLS).items().any(|tls| {
                let name = tls.at(fields::SECRET_NAME);
                !name.is_empty() && !name::check_dns1123_subdomain(name.str()).is_empty()
            }),
            wildcard_rules: old.at(fields::RULES).items().any(|rule| wrong(&rule)),
        }
    }
}

fn annotation<'a>(ingress: &FieldRef<'a>) -> Option<&'a str> {
    meta::entry(ingress.value(), fields::ANNOTATIONS, CLASS_ANNOTATION)
}

fn validate_spec(spec: &FieldRef<'_>, leniency: IngressValidationOptions) {
    let (rules, backend) = (spec.at(fields::RULES), spec.at(fields::DEFAULT_BACKEND));
    if rules.is_empty() && !backend.is_set() {
        spec.invalid_as((), "either `defaultBackend` or `rules` must be specified");
    }
    if backend.is_set() {
        validate_backend(&backend);
    }
    for rule in rules.items() {
        let wildcard = validate_host(&rule.at(fields::HOST));
        if !wildcard || !leniency.wildcard_rules {
            validate_paths(&rule.at(fields::HTTP));
        }
    }
    for tls in spec.at(fields::TLS).items() {
        validate_tls(&tls, leniency);
    }
    let class = spec.at(fields::INGRESS_CLASS_NAME);
    if class.is_set() {
        name::check(&class, name::check_dns1123_subdomain);
    }
}

/// Validates a host. Returns whether it is a wildcard.
fn validate_host(host: &FieldRef<'_>) -> bool {
    if host.is_empty() {
        return false;
    }
    if ip::parse(host.str()).is_some() {
        host.invalid(NO_DNS_NAME);
    }
    let wildcard = host.str().contains('*');
    if wildcard {
        name::check(host, name::wildcard_subdomain);
    } else {
        name::check(host, name::check_dns1123_subdomain);
    }
    wildcard
}

/// Reports an invalid host name in a status.
pub(crate) fn check_host_name(host: &FieldRef<'_>) {
    if host.is_empty() {
        return;
    }
    name::check(host, name::check_dns1123_subdomain);
    if ip::parse(host.str()).is_some() {
        host.invalid(NO_DNS_NAME);
    }
}

fn validate_tls(tls: &FieldRef<'_>, leniency: IngressValidationOptions) {
    for host in tls.at(fields::HOSTS).items() {
        if host.str().contains('*') {
            name::check(&host, name::wildcard_subdomain);
        } else {
            name::check(&host, name::check_dns1123_subdomain);
        }
    }
    let secret = tls.at(fields::SECRET_NAME);
    if !leniency.secret_names && !secret.is_empty() {
        name::check(&secret, name::check_dns1123_subdomain);
    }
}

fn validate_paths(http: &FieldRef<'_>) {
    if !http.is_set() {
        return;
    }
    let paths = http.at(fields::PATHS);
    paths.require();
    for path in paths.items() {
        validate_path(&path);
    }
}

fn validate_path(path: &FieldRef<'_>) {
    let (text, kind) = (path.at(fields::PATH), path.at(fields::PATH_TYPE));
    if !kind.is_set() {
        kind.required("pathType must be specified");
        return;
    }
    match kind.str() {
        "Exact" | "Prefix" => validate_plain_path(&text),
        "ImplementationSpecific" if !text.is_empty() && !text.str().starts_with('/') => {
            text.invalid("must be an absolute path");
        }
        "ImplementationSpecific" => {}
        _ => kind.not_supported(&["Exact", "ImplementationSpecific", "Prefix"]),
    }
    validate_backend(&path.at(fields::BACKEND));
}

fn validate_plain_path(path: &FieldRef<'_>) {
    if !path.str().starts_with('/') {
        path.invalid("must be an absolute path");
    }
    for part in BAD_PARTS.iter().filter(|part| path.str().contains(**part)) {
        path.invalid(&format!("must not contain '{part}'"));
    }
    for end in BAD_ENDS.iter().filter(|end| path.str().ends_with(**end)) {
        path.invalid(&format!("cannot end with '{end}'"));
    }
}

fn validate_backend(backend: &FieldRef<'_>) {
    let (resource, service) = (backend.at(fields::RESOURCE), backend.at(fields::SERVICE));
    match (resource.is_set(), service.is_set()) {
        (true, true) => backend.invalid_as("", "cannot set both resource and service backends"),
        (true, false) => validate_reference(&resource),
        (false, true) => validate_service(backend, &service),
        (false, false) => backend.invalid_as("", "resource or service backend is required"),
    }
}

fn validate_service(backend: &FieldRef<'_>, service: &FieldRef<'_>) {
    if service.at(fields::NAME).require() {
        name::check(&service.at(fields::NAME), name::check_dns1123_label);
    }
    let port = service.at(fields::PORT);
    let (named, number) = (port.at(fields::NAME), port.at(fields::NUMBER));
    match (named.is_empty(), number.int()) {
        (false, 0) => name::check(&named, name::port),
        (false, _) => backend.invalid_as("", "cannot set both port name & port number"),
        (true, 0) => backend.required("port name or number is required"),
        (true, _) => number.in_range(1, 65535),
    }
}

/// Validates a reference to an object of any kind.
pub(super) fn validate_reference(reference: &FieldRef<'_>) {
    let group = reference.at(fields::API_GROUP);
    if group.is_set() {
        name::check(&group, name::check_dns1123_subdomain);
    }
    for field in [fields::KIND, fields::NAME] {
        if reference.at(field).require() {
            name::check(&reference.at(field), name::path_segment);
        }
    }
}

fn hosts(ingress: &FieldRef<'_>) -> String {
    let rules = ingress.at(fields::SPEC).at(fields::RULES);
    let mut shown = Vec::new();
    let mut more = false;
    for rule in rules.items() {
        more |= shown.len() == HOSTS_SHOWN;
        if !more && !rule.at(fields::HOST).is_empty() {
            shown.push(rule.at(fields::HOST).str());
        }
    }
    match (shown.as_slice(), more) {
        ([], _) => "*".to_owned(),
        (shown, false) => shown.join(","),
        (shown, true) => format!("{} + {} more...", shown.join(","), rules.len() - HOSTS_SHOWN),
    }
}

/// The ingress points of a load balancer in a status.
pub(crate) fn ingress_points<'a>(status: &FieldRef<'a>) -> FieldRef<'a> {
    status.at(fields::LOAD_BALANCER).at(fields::INGRESS)
}

/// The addresses of a load balancer for the table.
pub(crate) fn addresses(status: &FieldRef<'_>) -> String {
    let found: BTreeSet<&str> = ingress_points(status)
        .items()
        .map(|point| match point.at(fields::IP).str() {
            "" => point.at(fields::HOSTNAME).str(),
            ip => ip,
        })
        .filter(|address| !address.is_empty())
        .collect();
    found.into_iter().collect::<Vec<_>>().join(",")
}
