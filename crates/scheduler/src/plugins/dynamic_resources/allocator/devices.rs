//! Devices in the search: which ones a request may have, and what choosing one changes.

use setpoint_api::quantity::Quantity;

use super::super::allocated::DeviceId;
use super::super::capacity::{self, CapacityError, ConsumedCapacity, consumed_capacity, has_capacity};
use super::super::constraint::ConstraintState;
use super::super::objects::DeviceSelector;
use super::super::pools::PoolDevice;
use super::super::selector::SelectorError;
use super::super::taint_rules::is_tainted_by_rule;
use super::{AllocatedDevice, AllocationError, Outcome, Search, Step};

/// The choices of one device that several requests may have.
#[derive(Debug, Default)]
pub(super) struct Share {
    /// The number of requests that have it. It may be on a device without capacities.
    count: usize,
    consumed: ConsumedCapacity,
}

/// Why a device that is free and selected is not chosen.
#[derive(Debug)]
pub(super) enum TakeError {
    /// It is tainted, or lacks counters or capacity.
    Unavailable,
    /// A constraint of the claim does not allow it beside those chosen before.
    Constraint,
}

impl<'a> Search<'a> {
    pub(super) fn is_free(&self, step: Step<'_>, id: &DeviceId, device: PoolDevice<'_>) -> bool {
        match step.one.admin_access {
            true => {
                let own = &self.allocations[step.id.claim].devices;
                device.device.allow_multiple_allocations || !own.iter().any(|device| device.id == *id)
            }
            false => !self.allocator.allocated.exclusive.contains(id) && !self.taken.contains(id),
        }
    }

    /// What the request consumes of the device; `None` if the device cannot have that much.
    pub(super) fn consumed_capacity(
        &self,
        step: Step<'_>,
        device_name: &dyn std::fmt::Display,
        device: PoolDevice<'_>,
    ) -> Result<Option<ConsumedCapacity>, AllocationError> {
        let consumed = consumed_capacity(device.device, &step.one.capacity.requests);
        let consumed = consumed.map_err(|CapacityError(reason)| {
            let (claim, request) = (&self.claims[step.id.claim].key, step.request.own_name(step.one));
            AllocationError::Failed(format!(
                "claim {claim}, request {request}: checking capacity for device {device_name}: {reason}"
            ))
        })?;
        Ok(consumed.filter(|consumed| has_capacity(device.device, consumed, [].iter())))
    }

    /// Chooses the device, if its counters, its capacity, its taints and the constraints allow it.
    pub(super) fn take(
        &mut self,
        step: Step<'a>,
        (id, device): (&DeviceId, PoolDevice<'a>),
        consumed: ConsumedCapacity,
        constraints: &ConstraintState,
    ) -> Result<ConstraintState, TakeError> {
        let is_shared = device.device.allow_multiple_allocations;
        if !self.is_available(step, id, device, &consumed) {
            return Err(TakeError::Unavailable);
        }
        let claim = &self.claims[step.id.claim].view;
        let next = constraints.with(claim, (step.request, step.one), (&id.driver, device.device));
        let next = next.ok_or(TakeError::Constraint)?;
        if !self.are_counters_consumed(id) {
            self.change_counters(id, device, |left, amount| left - amount);
        }
        if is_shared {
            let share = self.shares.entry(id.clone()).or_default();
            share.count += 1;
            capacity::add(&mut share.consumed, &consumed);
        } else if !step.one.admin_access {
            self.taken.insert(id.clone());
        }
        let is_for_one_node = device.nodes.node_name.is_some() || device.device.binds_to_node;
        self.allocations[step.id.claim].devices.push(AllocatedDevice {
            id: id.clone(),
            request: step.request.full_name(step.one),
            class: step.one.device_class_name.clone(),
            alternative: step.id.alternative,
            admin_access: step.one.admin_access,
            tolerations: step.one.tolerations.clone(),
            share: is_shared.then_some(consumed),
            binding_conditions: device.device.binding_conditions.clone(),
            binding_failure_conditions: device.device.binding_failure_conditions.clone(),
            node_name: is_for_one_node.then(|| self.node.into()),
            node_selector: device.nodes.node_selector.cloned(),
        });
        Ok(next)
    }

    fn is_available(
        &self,
        step: Step<'_>,
        id: &DeviceId,
        device: PoolDevice<'_>,
        consumed: &ConsumedCapacity,
    ) -> bool {
        let shared = &self.allocator.allocated.shared;
        let own = self.shares.get(id).map(|share| &share.consumed);
        has_capacity(device.device, consumed, shared.get(id).into_iter().chain(own))
            && !device.device.is_tainted_for(step.one)
            && !is_tainted_by_rule(&self.allocator.taint_rules, id, step.one)
            && (self.are_counters_consumed(id) || self.has_counters(id, device))
    }

    pub(super) fn give_back(&mut self, step: Step<'_>, id: &DeviceId, device: PoolDevice<'a>) {
        let chosen = self.allocations[step.id.claim].devices.pop();
        if let Some(consumed) = chosen.and_then(|chosen| chosen.share) {
            let share = self.shares.entry(id.clone()).or_default();
            share.count -= 1;
            capacity::subtract(&mut share.consumed, &consumed);
            if share.count == 0 {
                self.shares.remove(id);
            }
        } else if !step.one.admin_access {
            self.taken.remove(id);
        }
        if !self.are_counters_consumed(id) {
            self.change_counters(id, device, |left, amount| left + amount);
        }
    }

    /// Whether the counters of the device are consumed by others that share it: a further share consumes none.
    fn are_counters_consumed(&self, id: &DeviceId) -> bool {
        self.shares.contains_key(id) || self.allocator.allocated.shared.contains_key(id)
    }

    fn has_counters(&self, id: &DeviceId, device: PoolDevice<'_>) -> bool {
        let pool = || self.pools.iter().find(|pool| pool.has(id));
        device.device.consumes_counters.is_empty()
            || pool().is_some_and(|pool| pool.has_counters(device.device))
    }

    fn change_counters(
        &mut self,
        id: &DeviceId,
        device: PoolDevice<'a>,
        change: fn(Quantity, Quantity) -> Quantity,
    ) {
        if device.device.consumes_counters.is_empty() {
            return;
        }
        if let Some(pool) = self.pools.iter_mut().find(|pool| pool.has(id)) {
            pool.change_counters(device.device, change);
        }
    }

    /// Whether the selectors of the class and of the request select the device.
    pub(super) fn is_selectable(&mut self, step: Step<'_>, id: &DeviceId, device: PoolDevice<'_>) -> Outcome {
        let key = (step.id, id.clone());
        if let Some(known) = self.selectable.get(&key) {
            return Ok(*known);
        }
        let class = self.allocator.classes.get(&step.one.device_class_name);
        let class_selectors = class.map_or(&[][..], |class| &class.view.spec.selectors);
        let class_name = format!("class {}", step.one.device_class_name);
        let claim_name = format!("claim {}", self.claims[step.id.claim].key);
        let is_selected = self.matches_all(&class_name, class_selectors, id, device)?
            && self.matches_all(&claim_name, &step.one.selectors, id, device)?;
        self.selectable.insert(key, is_selected);
        Ok(is_selected)
    }

    fn matches_all(
        &self,
        owner: &str,
        selectors: &[DeviceSelector],
        id: &DeviceId,
        device: PoolDevice<'_>,
    ) -> Outcome {
        for (number, selector) in selectors.iter().enumerate() {
            let expression = &selector.cel.expression;
            let matches = self
                .allocator
                .selectors
                .matches(expression, &id.driver, device.device);
            let matches = matches.map_err(|error| {
                AllocationError::Failed(match error {
                    SelectorError::Compile(message) => {
                        format!("{owner}: selector #{number}: CEL compile error: {message}")
                    }
                    SelectorError::Evaluate(message) => {
                        format!("{owner}: selector #{number} on device {id}: CEL runtime error: {message}")
                    }
                })
            })?;
            if !matches {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
