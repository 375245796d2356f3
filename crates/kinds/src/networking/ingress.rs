//! Ingress: which service answers for a host and a path.

use std::collections::BTreeSet;

use setpoint_api::field::Errors;
use setpoint_api::table::Cell;

use crate::at::At;
use crate::columns::{self, Column};
use crate::meta;
use crate::shared::{ip, name};
use crate::strategy::{Names, Rules, Strategy, Subresource};

/// Says the class in old documents.
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
            columns::or_none(&ingress.at("spec").at("ingressClassName"))
        })
        .about("Who implements it."),
        Column::text("Hosts", |ingress, _| Cell::from(hosts(ingress))).about("The hosts it answers for."),
        Column::text("Address", |ingress, _| {
            Cell::from(addresses(&ingress.at("status")))
        })
        .about("Where it is reached."),
        Column::text("Ports", |ingress, _| {
            let secure = !ingress.at("spec").at("tls").is_empty();
            Cell::from(if secure { "80, 443" } else { "80" })
        })
        .about("The ports it is reached at."),
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules {
        tracks_generation: true,
        kept_at: "ingress",
        ..Rules::DEFAULT
    };

    fn validate(ingress: &At<'_>) {
        validate_spec(&ingress.at("spec"), Leniency::default());
        let class = ingress.at("spec").at("ingressClassName");
        let old = annotation(ingress);
        if let Some(old) = old.filter(|old| class.is_set() && *old != class.str()) {
            let place = ingress.errors().at("annotations").at(CLASS_ANNOTATION);
            place.invalid(old, "must match `ingressClassName` when both are specified");
        }
    }

    fn validate_again(ingress: &At<'_>, old: &At<'_>) {
        validate_spec(&ingress.at("spec"), Leniency::towards(&old.at("spec")));
    }

    fn validate_status(ingress: &At<'_>, old: &At<'_>) {
        let old = points(&old.at("status"));
        let before: BTreeSet<&str> = old.items().map(|point| point.at("ip").str()).collect();
        for point in points(&ingress.at("status")).items() {
            let (address, host) = (point.at("ip"), point.at("hostname"));
            if !address.is_empty() && !before.contains(address.str()) {
                ip::check(address.str(), address.errors());
            }
            check_host_name(&host);
        }
    }

    fn warnings(ingress: &At<'_>, old: Option<&At<'_>>) -> Vec<String> {
        let unnamed = !ingress.at("spec").at("ingressClassName").is_set();
        if old.is_some() || !unnamed || annotation(ingress).is_none() {
            return Vec::new();
        }
        vec![format!(
            "annotation {CLASS_ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead"
        )]
    }
}

/// What an update may keep although a create could not have it.
#[derive(Debug, Clone, Copy, Default)]
struct Leniency {
    secret_names: bool,
    wildcard_rules: bool,
}

impl Leniency {
    fn towards(old: &At<'_>) -> Self {
        let wrong = |rule: &At<'_>| {
            let errors = Errors::default();
            let http = rule.at("http").reported_at(errors.clone());
            validate_paths(&http);
            rule.at("host").str().contains('*') && !errors.is_empty()
        };
        Self {
            secret_names: old.at("tls").items().any(|tls| {
                let name = tls.at("secretName");
                !name.is_empty() && !name::subdomain(name.str()).is_empty()
            }),
            wildcard_rules: old.at("rules").items().any(|rule| wrong(&rule)),
        }
    }
}

fn annotation<'a>(ingress: &At<'a>) -> Option<&'a str> {
    meta::entry(ingress.value(), "annotations", CLASS_ANNOTATION)
}

fn validate_spec(spec: &At<'_>, leniency: Leniency) {
    let (rules, backend) = (spec.at("rules"), spec.at("defaultBackend"));
    if rules.is_empty() && !backend.is_set() {
        spec.invalid_as((), "either `defaultBackend` or `rules` must be specified");
    }
    if backend.is_set() {
        validate_backend(&backend);
    }
    for rule in rules.items() {
        let wildcard = validate_host(&rule.at("host"));
        if !wildcard || !leniency.wildcard_rules {
            validate_paths(&rule.at("http"));
        }
    }
    for tls in spec.at("tls").items() {
        validate_tls(&tls, leniency);
    }
    let class = spec.at("ingressClassName");
    if class.is_set() {
        name::check(&class, name::subdomain);
    }
}

/// Whether the host stands for many.
fn validate_host(host: &At<'_>) -> bool {
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
        name::check(host, name::subdomain);
    }
    wildcard
}

/// Reports a name of a host in a status.
pub(crate) fn check_host_name(host: &At<'_>) {
    if host.is_empty() {
        return;
    }
    name::check(host, name::subdomain);
    if ip::parse(host.str()).is_some() {
        host.invalid(NO_DNS_NAME);
    }
}

fn validate_tls(tls: &At<'_>, leniency: Leniency) {
    for host in tls.at("hosts").items() {
        if host.str().contains('*') {
            name::check(&host, name::wildcard_subdomain);
        } else {
            name::check(&host, name::subdomain);
        }
    }
    let secret = tls.at("secretName");
    if !leniency.secret_names && !secret.is_empty() {
        name::check(&secret, name::subdomain);
    }
}

fn validate_paths(http: &At<'_>) {
    if !http.is_set() {
        return;
    }
    let paths = http.at("paths");
    paths.require();
    for path in paths.items() {
        validate_path(&path);
    }
}

fn validate_path(path: &At<'_>) {
    let (text, kind) = (path.at("path"), path.at("pathType"));
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
    validate_backend(&path.at("backend"));
}

fn validate_plain_path(path: &At<'_>) {
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

fn validate_backend(backend: &At<'_>) {
    let (resource, service) = (backend.at("resource"), backend.at("service"));
    match (resource.is_set(), service.is_set()) {
        (true, true) => backend.invalid_as("", "cannot set both resource and service backends"),
        (true, false) => validate_reference(&resource),
        (false, true) => validate_service(backend, &service),
        (false, false) => backend.invalid_as("", "resource or service backend is required"),
    }
}

fn validate_service(backend: &At<'_>, service: &At<'_>) {
    if service.at("name").require() {
        name::check(&service.at("name"), name::label);
    }
    let port = service.at("port");
    let (named, number) = (port.at("name"), port.at("number"));
    match (named.is_empty(), number.int()) {
        (false, 0) => name::check(&named, name::port),
        (false, _) => backend.invalid_as("", "cannot set both port name & port number"),
        (true, 0) => backend.required("port name or number is required"),
        (true, _) => number.within(1, 65535),
    }
}

/// Reports what is wrong with a reference to an object of any kind.
pub(super) fn validate_reference(reference: &At<'_>) {
    let group = reference.at("apiGroup");
    if group.is_set() {
        name::check(&group, name::subdomain);
    }
    for field in ["kind", "name"] {
        if reference.at(field).require() {
            name::check(&reference.at(field), name::path_segment);
        }
    }
}

fn hosts(ingress: &At<'_>) -> String {
    let rules = ingress.at("spec").at("rules");
    let mut shown = Vec::new();
    let mut more = false;
    for rule in rules.items() {
        more |= shown.len() == HOSTS_SHOWN;
        if !more && !rule.at("host").is_empty() {
            shown.push(rule.at("host").str());
        }
    }
    match (shown.as_slice(), more) {
        ([], _) => "*".to_owned(),
        (shown, false) => shown.join(","),
        (shown, true) => format!("{} + {} more...", shown.join(","), rules.len() - HOSTS_SHOWN),
    }
}

/// The places where a load balancer is reached, as a status lists them.
pub(crate) fn points<'a>(status: &At<'a>) -> At<'a> {
    status.at("loadBalancer").at("ingress")
}

/// Where a load balancer is reached, as people read it.
pub(crate) fn addresses(status: &At<'_>) -> String {
    let found: BTreeSet<&str> = points(status)
        .items()
        .map(|point| match point.at("ip").str() {
            "" => point.at("hostname").str(),
            ip => ip,
        })
        .filter(|address| !address.is_empty())
        .collect();
    found.into_iter().collect::<Vec<_>>().join(",")
}
