//! DeviceClass: selectors and configuration for a class of devices.

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, NameRule, Names, RequestFacts, Rules, Scope, Strategy, name};

use super::selector::{self, Expressions};
use super::{GROUP, configuration, format};

const MAX: usize = 32;

#[derive(Debug)]
pub struct DeviceClass;

impl Strategy for DeviceClass {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "DeviceClass");
    const NAMES: Names = Names::new("deviceclasses", "deviceclass");
    const SCOPE: Scope = Scope::Cluster;
    const RULES: Rules = Rules::DEFAULT
        .tracks_generation()
        .returns_deleted()
        .name(NameRule::Custom);

    fn validate(class: &FieldRef<'_>, _facts: &RequestFacts) {
        validate(class, Expressions::New);
    }

    fn validate_for_update(class: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        let selectors = class.at(fields::SPEC).at(fields::SELECTORS);
        let before = old.at(fields::SPEC).at(fields::SELECTORS);
        let expressions = match selectors.is_same(&before) {
            true => Expressions::Stored,
            false => Expressions::New,
        };
        validate(class, expressions);
    }
}

fn validate(class: &FieldRef<'_>, expressions: Expressions) {
    let spec = class.at(fields::SPEC);
    selector::validate(&spec.at(fields::SELECTORS), expressions);
    let configs = spec.at(fields::CONFIG);
    if configs.len() <= MAX {
        configs
            .items()
            .for_each(|config| configuration::validate(&config));
    }
    name::check_declarative(
        &class.at(fields::METADATA).at(fields::NAME),
        name::check_dns1123_subdomain,
    );
    configuration::validate_declarative_selectors(&spec.at(fields::SELECTORS));
    if format::check_max_items(&configs, MAX) {
        configs
            .items()
            .for_each(|config| configuration::validate_declarative(&config));
    }
    if spec.at(fields::EXTENDED_RESOURCE_NAME).is_set() {
        validate_resource(&spec.at(fields::EXTENDED_RESOURCE_NAME));
    }
}

fn validate_resource(field: &FieldRef<'_>) {
    let text = field.str();
    if !text.contains('/') {
        field.invalid("a name must be a domain-prefixed path, such as 'example.com/my-prop'");
    } else if text.contains("kubernetes.io/") {
        field.invalid("must not have \"kubernetes.io/\" domain");
    }
    if text.starts_with("requests.") {
        field.invalid("must not have \"requests.\" prefix");
    }
    name::report(
        text,
        name::check_qualified_name(&format!("requests.{text}")),
        field.errors(),
    );
}
