//! DeviceClass: selectors and configuration for a class of devices.

use super::{GROUP, configuration, format};
use crate::field::FieldRef;
use crate::shared::name;
use crate::strategy::{NameRule, Names, Rules, Scope, Strategy};

const MAX: usize = 32;

#[derive(Debug)]
pub struct DeviceClass;

impl Strategy for DeviceClass {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "DeviceClass");
    const NAMES: Names = Names::new("deviceclasses", "deviceclass");
    const SCOPE: Scope = Scope::Cluster;
    const RULES: Rules = Rules {
        tracks_generation: true,
        returns_deleted: true,
        name: NameRule::Custom,
        ..Rules::DEFAULT
    };

    fn validate(class: &FieldRef<'_>) {
        let spec = class.at("spec");
        configuration::validate_selectors(&spec.at("selectors"));
        let configs = spec.at("config");
        if configs.len() <= MAX {
            configs
                .items()
                .for_each(|config| configuration::validate(&config));
        }
        name::check_declarative(&class.at("metadata").at("name"), name::check_dns1123_subdomain);
        configuration::validate_declarative_selectors(&spec.at("selectors"));
        if format::check_max_items(&configs, MAX) {
            configs
                .items()
                .for_each(|config| configuration::validate_declarative(&config));
        }
        if spec.at("extendedResourceName").is_set() {
            validate_resource(&spec.at("extendedResourceName"));
        }
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
