//! DeviceClass: a sort of devices, by what selects them, and how they are set up.

use super::{GROUP, configuration, form};
use crate::at::At;
use crate::shared::name;
use crate::strategy::{NameRule, Names, Rules, Scope, Strategy};

const MOST: usize = 32;

#[derive(Debug)]
pub struct DeviceClass;

impl Strategy for DeviceClass {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "DeviceClass");
    const NAMES: Names = Names::new("deviceclasses", "deviceclass");
    const SCOPE: Scope = Scope::Cluster;
    const RULES: Rules = Rules {
        tracks_generation: true,
        returns_deleted: true,
        name: NameRule::Own,
        ..Rules::DEFAULT
    };

    fn validate(class: &At<'_>) {
        let spec = class.at("spec");
        configuration::validate_selectors(&spec.at("selectors"));
        let configs = spec.at("config");
        if configs.len() <= MOST {
            configs
                .items()
                .for_each(|config| configuration::validate(&config));
        }
        name::declared(&class.at("metadata").at("name"), name::subdomain);
        configuration::declared_selectors(&spec.at("selectors"));
        if form::at_most(&configs, MOST) {
            configs
                .items()
                .for_each(|config| configuration::declared(&config));
        }
        if spec.at("extendedResourceName").is_set() {
            validate_resource(&spec.at("extendedResourceName"));
        }
    }
}

fn validate_resource(place: &At<'_>) {
    let text = place.str();
    if !text.contains('/') {
        place.invalid("a name must be a domain-prefixed path, such as 'example.com/my-prop'");
    } else if text.contains("kubernetes.io/") {
        place.invalid("must not have \"kubernetes.io/\" domain");
    }
    if text.starts_with("requests.") {
        place.invalid("must not have \"requests.\" prefix");
    }
    name::report(text, name::qualified(&format!("requests.{text}")), place.errors());
}
