//! ResourceSlice: devices that a driver offers, on one node or on several.

mod device;

use setpoint_schema::Tree;

use super::{GROUP, form, taint};
use crate::at::At;
use crate::columns::{self, Column};
use crate::shared::name;
use crate::strategy::{Facts, Field, Names, Rules, Scope, Strategy};

const MOST_DEVICES: usize = 128;
/// Devices with taints, counters or lists are bigger, so there may be fewer of them.
const MOST_BIG_DEVICES: usize = 64;
const MOST_COUNTER_SETS: usize = 8;
const WHERE: &str =
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";

#[derive(Debug)]
pub struct ResourceSlice;

impl Strategy for ResourceSlice {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "ResourceSlice");
    const NAMES: Names = Names::new("resourceslices", "resourceslice");
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Node", |slice, _| {
            columns::or_empty(&slice.at("spec").at("nodeName"))
        })
        .about("The node whose devices these are."),
        Column::text("Driver", |slice, _| {
            columns::or_empty(&slice.at("spec").at("driver"))
        })
        .about("Who offers them."),
        Column::text("Pool", |slice, _| {
            columns::or_empty(&slice.at("spec").at("pool").at("name"))
        })
        .about("What they are a part of."),
        columns::AGE,
    ];
    const FIELDS: &'static [Field] = &[
        Field::new("spec.nodeName", &[&["spec", "nodeName"]]),
        Field::new("spec.driver", &[&["spec", "driver"]]),
        Field::new("spec.pool.name", &[&["spec", "pool", "name"]]),
    ];
    const RULES: Rules = Rules {
        tracks_generation: true,
        returns_deleted: true,
        unselectable: "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {label}",
        ..Rules::DEFAULT
    };

    fn default_by_facts(slice: &mut Tree, facts: &Facts) {
        fill_times(slice, facts);
    }

    fn validate(slice: &At<'_>) {
        validate_spec(&slice.at("spec"), &At::absent());
    }

    fn validate_again(slice: &At<'_>, old: &At<'_>) {
        validate_spec(&slice.at("spec"), &old.at("spec"));
    }
}

fn fill_times(slice: &mut Tree, facts: &Facts) {
    for device in slice.child("spec").items_mut("devices") {
        for taint in device.items_mut("taints") {
            taint::fill_time(taint, facts);
        }
    }
}

fn validate_spec(spec: &At<'_>, old: &At<'_>) {
    form::driver(&spec.at("driver"));
    validate_pool(&spec.at("pool"));
    if old.is_set() {
        spec.at("pool").at("name").immutable(&old.at("pool").at("name"));
        spec.at("driver").immutable(&old.at("driver"));
        spec.at("nodeName").immutable(&old.at("nodeName"));
    }
    validate_nodes(spec);
    let (devices, counters) = (spec.at("devices"), spec.at("sharedCounters"));
    if devices.is_set() && counters.is_set() {
        spec.invalid_as("", "only one of `sharedCounters` or `devices` is allowed");
    }
    let big = devices.items().any(|device| device::is_big(&device));
    if form::at_most(&devices, if big { MOST_BIG_DEVICES } else { MOST_DEVICES }) {
        let each = spec.at("perDeviceNodeSelection").bool();
        for device in devices.items() {
            device::validate(&device, each);
        }
        unique_names(&devices);
    }
    if form::at_most(&counters, MOST_COUNTER_SETS) {
        unique_names(&counters);
    }
    devices.items().for_each(|device| device::declared(&device));
    for set in counters.items() {
        device::declared_counters(&set, "name");
    }
}

fn unique_names(list: &At<'_>) {
    let mut seen: Vec<&str> = Vec::new();
    for item in list.items() {
        let own = item.at("name").str();
        if seen.contains(&own) {
            item.errors().duplicate(own);
        }
        seen.push(own);
    }
}

fn validate_pool(pool: &At<'_>) {
    form::pool(&pool.at("name"));
    if pool.at("resourceSliceCount").int() <= 0 {
        pool.at("resourceSliceCount").invalid("must be greater than zero");
    }
    if pool.at("generation").int() < 0 {
        pool.at("generation")
            .invalid("must be greater than or equal to zero");
    }
}

/// Says in one way where the devices are.
fn validate_nodes(spec: &At<'_>) {
    let mut ways = Vec::new();
    let node = spec.at("nodeName");
    if node.is_set() && node.is_empty() {
        node.invalid("must be either unset or set to a non-empty string");
    } else if node.is_set() {
        ways.push("`nodeName`");
        name::check(&node, name::subdomain);
    }
    let selector = spec.at("nodeSelector");
    if selector.is_set() {
        ways.push("`nodeSelector`");
        let terms = selector.at("nodeSelectorTerms");
        if terms.len() != 1 {
            terms.invalid("must have exactly one node selector term");
        }
    }
    for (field, way) in [
        ("allNodes", "`allNodes`"),
        ("perDeviceNodeSelection", "`perDeviceNodeSelection`"),
    ] {
        match spec.at(field).find_bool() {
            Some(true) => ways.push(way),
            Some(false) => spec.at(field).invalid("must be either unset or set to true"),
            None => {}
        }
    }
    match ways.len() {
        0 => spec.required(WHERE),
        1 => {}
        _ => spec.invalid_as(
            format!("{{{}}}", ways.join(", ")),
            &format!("{WHERE}, but multiple fields are set"),
        ),
    }
}
