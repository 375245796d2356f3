//! [`Allocation`]: the devices that were found for a claim, and the AllocationResult that the claim's status gets.

use std::collections::BTreeMap;

use compact_str::CompactString;
use serde_json::{Value, json};
use uuid::Uuid;

use super::allocated::{DeviceId, DeviceUse};
use super::capacity::ConsumedCapacity;
use super::objects::Claim;
use crate::pod_info::Toleration;
use crate::pod_info::node_selector::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};

/// The devices of one claim.
#[derive(Debug, Clone, Default)]
pub(super) struct Allocation {
    pub(super) devices: Vec<AllocatedDevice>,
    /// The configuration of each class.
    pub(super) class_config: BTreeMap<CompactString, Vec<Value>>,
}

#[derive(Debug, Clone)]
pub(super) struct AllocatedDevice {
    pub(super) id: DeviceId,
    /// The request, or `request/alternative`.
    pub(super) request: String,
    pub(super) class: CompactString,
    /// The position of the alternative.
    pub(super) alternative: Option<usize>,
    pub(super) admin_access: bool,
    pub(super) tolerations: Vec<Toleration>,
    /// What it consumes of a device that other claims may have, too; `None` of one that it has for itself.
    pub(super) share: Option<ConsumedCapacity>,
    pub(super) binding_conditions: Vec<CompactString>,
    pub(super) binding_failure_conditions: Vec<CompactString>,
    /// The node, if the device is for it alone.
    pub(super) node_name: Option<CompactString>,
    pub(super) node_selector: Option<NodeSelector>,
}

impl Allocation {
    /// The devices that other claims cannot have, or not all of.
    pub(super) fn device_uses(&self) -> impl Iterator<Item = DeviceUse> {
        let used = self.devices.iter().filter(|device| !device.admin_access);
        used.map(|device| DeviceUse {
            id: device.id.clone(),
            share: device.share.clone(),
        })
    }

    /// The positions of the alternatives that were chosen, one per request.
    pub(super) fn alternatives(&self) -> impl Iterator<Item = usize> {
        let mut requests: Vec<(&str, usize)> = self
            .devices
            .iter()
            .filter_map(|device| Some((device.request.as_str(), device.alternative?)))
            .collect();
        requests.dedup();
        requests.into_iter().map(|(_, position)| position)
    }

    /// The AllocationResult of the claim's status.
    pub(super) fn to_json(&self, claim: &Claim) -> Value {
        let mut result = json!({"devices": {
            "results": self.devices.iter().map(AllocatedDevice::to_json).collect::<Vec<_>>(),
        }});
        let config = self.config(claim);
        if !config.is_empty() {
            result["devices"]["config"] = json!(config);
        }
        if let Some(selector) = self.node_selector() {
            result["nodeSelector"] = selector;
        }
        result
    }

    /// The configuration of the classes, then that of the claim. Without requests it applies to all.
    fn config(&self, claim: &Claim) -> Vec<Value> {
        let mut configs = Vec::new();
        for (class, parts) in &self.class_config {
            let of_class = self.devices.iter().filter(|device| device.class == *class);
            let mut requests: Vec<&str> = of_class.map(|device| device.request.as_str()).collect();
            requests.dedup();
            for part in parts {
                configs.push(self.with_source(part, "FromClass", &requests));
            }
        }
        for part in &claim.spec.devices.config {
            let requests: Vec<&str> = part["requests"].as_array().map_or_else(Vec::new, |requests| {
                requests.iter().filter_map(Value::as_str).collect()
            });
            let applies = |device: &AllocatedDevice| {
                let parent = device.request.split('/').next().unwrap_or_default();
                requests.contains(&device.request.as_str()) || requests.contains(&parent)
            };
            if requests.is_empty() || self.devices.iter().any(applies) {
                configs.push(self.with_source(part, "FromClaim", &requests));
            }
        }
        configs
    }

    fn with_source(&self, part: &Value, source: &str, requests: &[&str]) -> Value {
        let mut config = part.clone();
        config["source"] = json!(source);
        let is_for = |device: &AllocatedDevice| {
            let parent = device.request.split('/').next().unwrap_or_default();
            requests.contains(&device.request.as_str()) || requests.contains(&parent)
        };
        if let Some(fields) = config.as_object_mut() {
            fields.remove("requests");
            if !requests.is_empty() && !self.devices.iter().all(is_for) {
                fields.insert("requests".to_owned(), json!(requests));
            }
        }
        config
    }

    /// The nodes on which all devices are available; `None` for all nodes.
    fn node_selector(&self) -> Option<Value> {
        if let Some(node) = self.devices.iter().find_map(|device| device.node_name.as_ref()) {
            return Some(json!({"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": [node]},
            ]}]}));
        }
        let selectors = self
            .devices
            .iter()
            .filter_map(|device| device.node_selector.as_ref());
        let mut term = NodeSelectorTerm::default();
        for own in selectors.filter_map(|selector| selector.node_selector_terms.first()) {
            add_missing(&mut term.match_expressions, &own.match_expressions);
            add_missing(&mut term.match_fields, &own.match_fields);
        }
        if term.match_expressions.is_empty() && term.match_fields.is_empty() {
            return None;
        }
        let list = |all: &[NodeSelectorRequirement]| -> Vec<Value> {
            let requirement = |one: &NodeSelectorRequirement| {
                let mut json = json!({"key": one.key, "operator": one.operator});
                if !one.values.is_empty() {
                    json["values"] = json!(one.values);
                }
                json
            };
            all.iter().map(requirement).collect()
        };
        let mut json = json!({});
        if !term.match_expressions.is_empty() {
            json["matchExpressions"] = json!(list(&term.match_expressions));
        }
        if !term.match_fields.is_empty() {
            json["matchFields"] = json!(list(&term.match_fields));
        }
        Some(json!({"nodeSelectorTerms": [json]}))
    }
}

fn add_missing(all: &mut Vec<NodeSelectorRequirement>, more: &[NodeSelectorRequirement]) {
    for one in more {
        if !all.contains(one) {
            all.push(one.clone());
        }
    }
}

impl AllocatedDevice {
    fn to_json(&self) -> Value {
        let mut json = json!({
            "request": self.request,
            "driver": self.id.driver,
            "pool": self.id.pool,
            "device": self.id.device,
        });
        if self.admin_access {
            json["adminAccess"] = json!(true);
        }
        if !self.binding_conditions.is_empty() {
            json["bindingConditions"] = json!(self.binding_conditions);
        }
        if !self.binding_failure_conditions.is_empty() {
            json["bindingFailureConditions"] = json!(self.binding_failure_conditions);
        }
        if let Some(consumed) = &self.share {
            json["shareID"] = json!(Uuid::new_v4().to_string());
            if !consumed.is_empty() {
                let amounts = consumed.iter();
                let amounts = amounts.map(|(name, amount)| (name.to_string(), json!(amount.to_string())));
                json["consumedCapacity"] = Value::Object(amounts.collect());
            }
        }
        if !self.tolerations.is_empty() {
            let toleration = |one: &Toleration| {
                let fields = [
                    ("key", &one.key),
                    ("operator", &one.operator),
                    ("value", &one.value),
                    ("effect", &one.effect),
                ];
                let set = fields.into_iter().filter(|(_, value)| !value.is_empty());
                set.map(|(name, value)| (name.to_owned(), json!(value)))
                    .collect::<serde_json::Map<_, _>>()
            };
            json["tolerations"] = json!(self.tolerations.iter().map(toleration).collect::<Vec<_>>());
        }
        json
    }
}
