//! Constraints on the attributes of the devices of a claim.

use super::objects::{Claim, DeviceRequest, Request};
use super::slices::{Attribute, Device};

/// The attributes of the devices chosen so far, per constraint of a claim.
#[derive(Debug, Default, Clone)]
pub(super) struct ConstraintState {
    values: Vec<Vec<Attribute>>,
}

impl ConstraintState {
    pub(super) fn new(claim: &Claim) -> Self {
        Self {
            values: vec![Vec::new(); claim.spec.devices.constraints.len()],
        }
    }

    /// The state with the device added; `None` if a constraint does not allow it.
    pub(super) fn with(
        &self,
        claim: &Claim,
        (request, one): (&Request, &DeviceRequest),
        (driver, device): (&str, &Device),
    ) -> Option<Self> {
        let mut next = self.clone();
        let full_name = request.full_name(one);
        for (constraint, values) in claim.spec.devices.constraints.iter().zip(&mut next.values) {
            let mut names = constraint.requests.iter();
            let applies = constraint.requests.is_empty()
                || names.any(|name| *name == request.name || *name == full_name);
            if !applies {
                continue;
            }
            let matched = constraint.match_attribute.as_deref();
            let name = matched.or(constraint.distinct_attribute.as_deref())?;
            let attribute = device.attribute(name, driver)?;
            let is_allowed = match matched {
                Some(_) => values.iter().all(|value| value == attribute),
                None => !values.contains(attribute),
            };
            if !is_allowed {
                return None;
            }
            values.push(attribute.clone());
        }
        Some(next)
    }
}
