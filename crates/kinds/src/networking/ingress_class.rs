//! IngressClass: which controller implements the ingresses of a class.

use setpoint_api::field::Errors;
use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column, NONE};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy, meta, name};

const DEFAULT_ANNOTATION: &str = "ingressclass.kubernetes.io/is-default-class";
const CONTROLLER_BYTES: usize = 250;

#[derive(Debug)]
pub struct IngressClass;

impl Strategy for IngressClass {
    const KIND: (&'static str, &'static str, &'static str) = ("networking.k8s.io", "v1", "IngressClass");
    const NAMES: Names = Names::new("ingressclasses", "ingressclass");
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        NAME,
        Column::text("Controller", |class, _| {
            columns::or_empty(&class.at(fields::SPEC).at(fields::CONTROLLER))
        })
        .description("The controller of the class."),
        Column::text("Parameters", |class, _| {
            Cell::from(parameters(&class.at(fields::SPEC).at(fields::PARAMETERS)))
        })
        .description("The parameters object."),
        columns::AGE,
    ];
    const RULES: Rules = Rules::DEFAULT.tracks_generation();

    fn default_fields(class: &mut Tree) {
        if let Some(parameters) = class.at_mut(&[fields::SPEC, fields::PARAMETERS]) {
            parameters.set_default(fields::SCOPE, "Cluster");
        }
    }

    fn validate(class: &FieldRef<'_>, _facts: &RequestFacts) {
        let controller = class.at(fields::SPEC).at(fields::CONTROLLER);
        if controller.str().len() > CONTROLLER_BYTES {
            controller.too_long(CONTROLLER_BYTES);
        }
        check_domain_path(controller.str(), controller.errors());
        let parameters = class.at(fields::SPEC).at(fields::PARAMETERS);
        if parameters.is_set() {
            validate_parameters(&parameters);
        }
    }

    fn validate_for_update(_class: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {}

    fn validate_update(class: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
        let controller = class.at(fields::SPEC).at(fields::CONTROLLER);
        controller.immutable(&old.at(fields::SPEC).at(fields::CONTROLLER));
        Self::validate(class, facts);
    }
}

/// The name column, with `(default)` for the default class.
const NAME: Column = {
    let mut column = columns::NAME;
    column.cell = |class, _| {
        let name = class.at(fields::METADATA).at(fields::NAME).str();
        match meta::entry(class.value(), fields::ANNOTATIONS, DEFAULT_ANNOTATION) {
            Some("true") => Cell::from(format!("{name} (default)")),
            _ => Cell::from(name),
        }
    };
    column
};

/// A domain-prefixed path: `example.com/controller`.
fn check_domain_path(text: &str, errors: &Errors) {
    if text.is_empty() {
        errors.required("");
        return;
    }
    let Some((host, path)) = text
        .split_once('/')
        .filter(|(host, path)| !host.is_empty() && !path.is_empty())
    else {
        errors.invalid(text, "must be a domain-prefixed path (such as \"acme.io/foo\")");
        return;
    };
    name::report(host, name::check_dns1123_subdomain(host), errors);
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !path.bytes().all(allowed) {
        let form = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
        errors.invalid(path, form);
    }
}

fn validate_parameters(parameters: &FieldRef<'_>) {
    let group = parameters.at(fields::API_GROUP);
    if group.is_set() {
        name::check(&group, name::check_dns1123_subdomain);
    }
    for field in [fields::KIND, fields::NAME] {
        if !parameters.at(field).is_empty() {
            name::check(&parameters.at(field), name::path_segment);
        }
    }
    let (scope, namespace) = (parameters.at(fields::SCOPE), parameters.at(fields::NAMESPACE));
    match scope.str() {
        "Namespace" if !namespace.is_set() => {
            namespace.required("`parameters.scope` is set to 'Namespace'");
        }
        "Namespace" => name::check(&namespace, name::check_dns1123_label),
        "Cluster" if namespace.is_set() => namespace.forbidden("`parameters.scope` is set to 'Cluster'"),
        "Cluster" => {}
        _ => scope.not_supported(&["Cluster", "Namespace"]),
    }
    // Required by declarative validation, which runs last.
    for field in [fields::KIND, fields::NAME] {
        parameters.at(field).require();
    }
}

fn parameters(parameters: &FieldRef<'_>) -> String {
    if !parameters.is_set() {
        return NONE.to_owned();
    }
    let (kind, name) = (
        parameters.at(fields::KIND).str(),
        parameters.at(fields::NAME).str(),
    );
    match parameters.at(fields::API_GROUP).find_str() {
        Some(group) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}
