//! Consumable capacity: what an allocation consumes of a device, by the request policies of its capacities (upstream:
//! `structured/internal/incubating/consumable_capacity.go`).

use std::collections::BTreeMap;

use compact_str::CompactString;
use setpoint_api::quantity::Quantity;

use super::slices::{ApiQuantity, Capacity, Device, RequestPolicy, ValidRange};

/// Amounts by the name of the capacity.
pub(super) type ConsumedCapacity = BTreeMap<CompactString, Quantity>;

/// Why the search for an allocation ends: a device or a request has an amount that cannot be counted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CapacityError(pub(super) String);

/// What an allocation for the request consumes of each capacity of the device. `None` if the device lacks a requested
/// capacity, or if a policy does not allow the amount: another device may fit.
///
/// For example, of a capacity with a valid range from 1Gi in steps of 512Mi a request for 1100Mi consumes 1536Mi.
pub(super) fn consumed_capacity(
    device: &Device,
    requests: &BTreeMap<CompactString, ApiQuantity>,
) -> Result<Option<ConsumedCapacity>, CapacityError> {
    if requests.keys().any(|name| !device.capacity.contains_key(name)) {
        return Ok(None);
    }
    let mut consumed = ConsumedCapacity::new();
    for (name, capacity) in &device.capacity {
        let request = requests.get(name).map(|request| request.0);
        let amount = consumed_amount(request, capacity)
            .and_then(check_not_negative)
            .map_err(|CapacityError(reason)| CapacityError(format!("capacity {:?}: {reason}", &**name)))?;
        consumed.insert(name.clone(), amount);
    }
    let is_allowed = device.capacity.iter().all(|(name, capacity)| {
        let policy = capacity.request_policy.as_ref();
        policy.is_none_or(|policy| allows(policy, consumed[name]))
    });
    Ok(is_allowed.then_some(consumed))
}

/// Whether the device has so much besides what others consume.
pub(super) fn has_capacity<'a>(
    device: &Device,
    consumed: &ConsumedCapacity,
    others: impl Iterator<Item = &'a ConsumedCapacity> + Clone,
) -> bool {
    device.capacity.iter().all(|(name, capacity)| {
        let own = consumed.get(name).copied().unwrap_or_default();
        let others = others.clone().filter_map(|other| other.get(name));
        others.fold(own, |sum, other| sum + *other) <= capacity.value.0
    })
}

/// Adds amounts to amounts.
pub(super) fn add(sum: &mut ConsumedCapacity, more: &ConsumedCapacity) {
    for (name, amount) in more {
        let own = sum.entry(name.clone()).or_default();
        *own = *own + *amount;
    }
}

/// Subtracts amounts from amounts.
pub(super) fn subtract(sum: &mut ConsumedCapacity, less: &ConsumedCapacity) {
    for (name, amount) in less {
        let own = sum.entry(name.clone()).or_default();
        *own = *own - *amount;
    }
}

/// The amount of a request, rounded up to one that the policy allows. Without a request it is the default of the policy,
/// or everything.
fn consumed_amount(request: Option<Quantity>, capacity: &Capacity) -> Result<Quantity, CapacityError> {
    let policy = capacity.request_policy.as_ref();
    let Some(request) = request else {
        let default = policy.and_then(|policy| policy.default);
        return Ok(default.unwrap_or(capacity.value).0);
    };
    let Some(policy) = policy else {
        return Ok(request);
    };
    match &policy.valid_range {
        Some(range) if range.min.is_some() => round_up_to_range(request, range),
        _ => {
            let valid = policy.valid_values.iter().map(|value| value.0);
            Ok(valid
                .into_iter()
                .find(|value| request <= *value)
                .unwrap_or(request))
        }
    }
}

fn check_not_negative(amount: Quantity) -> Result<Quantity, CapacityError> {
    match amount.is_negative() {
        true => Err(CapacityError("capacity value is negative".to_owned())),
        false => Ok(amount),
    }
}

/// The least amount of the range that is at least the request. It may be above the maximum, which the policy rejects. Steps
/// are counted in whole units, to which fractions are rounded up: DRAFractionalCapacityRange is off by default.
fn round_up_to_range(request: Quantity, range: &ValidRange) -> Result<Quantity, CapacityError> {
    let min = range.min.unwrap_or_default().0;
    if request < min {
        return Ok(min);
    }
    let Some(step) = range.step.map(|step| step.0) else {
        return Ok(request);
    };
    let (first, width) = (min.value(), step.value());
    let above = request.value().saturating_sub(first);
    let (Some(whole), Some(rest)) = (above.checked_div(width), above.checked_rem(width)) else {
        return Ok(request);
    };
    let rounded = width.checked_mul(whole + i64::from(rest != 0));
    match rounded.and_then(|above| first.checked_add(above)) {
        Some(rounded) => Ok(Quantity::new(rounded, step.format())),
        None => Err(CapacityError(format!(
            "capacity request cannot be represented in the device's range arithmetic: rounding request {request} up to \
             the next step passes MaxInt64"
        ))),
    }
}

/// Whether the policy allows the amount.
fn allows(policy: &RequestPolicy, amount: Quantity) -> bool {
    if policy.default.is_some_and(|default| default.0 == amount) {
        return true;
    }
    match &policy.valid_range {
        Some(range) => is_in_range(amount, range),
        None => policy.valid_values.is_empty() || policy.valid_values.iter().any(|valid| valid.0 == amount),
    }
}

fn is_in_range(amount: Quantity, range: &ValidRange) -> bool {
    if range.max.is_some_and(|max| amount > max.0) {
        return false;
    }
    let Some(step) = range.step else {
        return true;
    };
    let above = amount
        .value()
        .saturating_sub(range.min.unwrap_or_default().0.value());
    above.checked_rem(step.0.value()).is_none_or(|rest| rest == 0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// What a request consumes of the capacity `memory`, `none` if the device does not fit, or the error.
    #[track_caller]
    fn check(capacity: Value, request: Value, expected: &str) {
        let device: Device =
            serde_json::from_value(json!({"name": "d", "capacity": {"memory": capacity}})).unwrap();
        let requests = serde_json::from_value(request).unwrap();
        let text = match consumed_capacity(&device, &requests) {
            Ok(None) => "none".to_owned(),
            Ok(Some(consumed)) => consumed["memory"].to_string(),
            Err(CapacityError(reason)) => reason,
        };
        assert_eq!(text, expected);
    }

    fn memory(amount: &str) -> Value {
        json!({"memory": amount})
    }

    #[test]
    fn without_a_policy_a_request_consumes_what_it_requests() {
        let capacity = json!({"value": "8Gi"});
        check(capacity.clone(), json!({}), "8Gi");
        check(capacity.clone(), memory("3Gi"), "3Gi");
        check(capacity.clone(), json!({"bandwidth": "1"}), "none");
        check(
            capacity,
            memory("-1"),
            "capacity \"memory\": capacity value is negative",
        );
    }

    #[test]
    fn a_request_is_rounded_up_to_a_valid_value() {
        let policy = json!({"default": "1Gi", "validValues": ["1Gi", "2Gi", "4Gi"]});
        let capacity = json!({"value": "8Gi", "requestPolicy": policy});
        check(capacity.clone(), json!({}), "1Gi");
        check(capacity.clone(), memory("1"), "1Gi");
        check(capacity.clone(), memory("2Gi"), "2Gi");
        check(capacity.clone(), memory("2049Mi"), "4Gi");
        check(capacity, memory("5Gi"), "none");
    }

    #[test]
    fn a_request_is_rounded_up_to_a_step_of_the_range() {
        let range =
            |range: Value| json!({"value": "8Gi", "requestPolicy": {"default": "1Gi", "validRange": range}});
        let stepped = range(json!({"min": "1Gi", "max": "4Gi", "step": "512Mi"}));
        check(stepped.clone(), json!({}), "1Gi");
        check(stepped.clone(), memory("1"), "1Gi");
        check(stepped.clone(), memory("1100Mi"), "1536Mi");
        check(stepped.clone(), memory("4Gi"), "4Gi");
        check(stepped, memory("4097Mi"), "none");
        let free = range(json!({"min": "1Gi", "max": "4Gi"}));
        check(free.clone(), memory("1100Mi"), "1100Mi");
        check(free, memory("5Gi"), "none");
    }

    #[test]
    fn steps_are_whole_units() {
        let policy = json!({"default": "1", "validRange": {"min": "1", "max": "4", "step": "1"}});
        let capacity = json!({"value": "4", "requestPolicy": policy});
        check(capacity.clone(), memory("1"), "1");
        check(capacity.clone(), memory("1001m"), "2");
        check(capacity, memory("500m"), "1");
    }

    #[test]
    fn an_amount_that_64_bits_cannot_count_ends_the_search() {
        let policy = json!({"validRange": {"min": "0", "step": "5E"}});
        check(
            json!({"value": "9E", "requestPolicy": policy}),
            memory("6E"),
            "capacity \"memory\": capacity request cannot be represented in the device's range arithmetic: rounding \
             request 6E up to the next step passes MaxInt64",
        );
    }

    #[test]
    fn a_device_has_what_others_left() {
        let device: Device =
            serde_json::from_value(json!({"capacity": {"memory": {"value": "8Gi"}}})).unwrap();
        let amount = |text: &str| ConsumedCapacity::from([("memory".into(), text.parse().unwrap())]);
        let others = [amount("3Gi"), amount("1Gi")];
        assert!(has_capacity(&device, &amount("4Gi"), others.iter()));
        assert!(!has_capacity(&device, &amount("4097Mi"), others.iter()));
    }
}
