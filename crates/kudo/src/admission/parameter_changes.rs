//! Changes of parameters: which of them changed, whether they may, and the plan that they start.

use crate::api::{Instance, OperatorVersion, Parameter, plans};

/// The parameters whose values differ between two versions of an Instance.
#[derive(Debug)]
pub(super) struct ParameterChanges<'v> {
    changed: Vec<&'v Parameter>,
    removed: Vec<&'v Parameter>,
}

impl<'v> ParameterChanges<'v> {
    /// The changes. A value of an unknown parameter is an error; a value of one that an upgrade adds is no change.
    pub(super) fn of(
        old: &Instance,
        new: &Instance,
        (old_version, version): (&OperatorVersion, &'v OperatorVersion),
    ) -> Result<Self, String> {
        let (old, new) = (&old.spec.parameters, &new.spec.parameters);
        let mut changed = Vec::new();
        for (name, _) in new.iter().filter(|(name, value)| old.get(*name) != Some(value)) {
            let parameter = version.find_parameter(name);
            let parameter = parameter
                .ok_or_else(|| format!("failed to find parameter {name:?} in the OperatorVersion"))?;
            if old_version.find_parameter(name).is_some() {
                changed.push(parameter);
            }
        }
        let removed = old.keys().filter(|name| !new.contains_key(*name));
        // An upgrade may remove parameters together with their values.
        let removed = removed
            .map(|name| version.find_parameter(name))
            .collect::<Option<_>>();
        Ok(Self {
            changed,
            removed: removed.unwrap_or_default(),
        })
    }

    /// Checks that immutable parameters keep their values, and that an upgrade sets those that become immutable. An upgrade
    /// removes the values of parameters that the new version does not have.
    pub(super) fn check_immutable(
        &self,
        old: &Instance,
        new: &mut Instance,
        upgrade: Option<(&OperatorVersion, &OperatorVersion)>,
    ) -> Result<(), String> {
        let Some((old_version, version)) = upgrade else {
            let immutable = self.changed.iter().find(|parameter| parameter.is_immutable());
            return immutable.map_or(Ok(()), |parameter| {
                let name = &parameter.name;
                let value =
                    |instance: &Instance| instance.spec.parameters.get(name).cloned().unwrap_or_default();
                Err(format!(
                    "parameter '{name}' is immutable but was changed from '{}' to '{}'",
                    value(old),
                    value(new)
                ))
            });
        };
        new.spec.parameters.retain(|name, _| {
            old_version.find_parameter(name).is_none() || version.find_parameter(name).is_some()
        });
        let values = &new.spec.parameters;
        let unset = version.spec.parameters.iter();
        for parameter in unset.filter(|own| own.is_immutable() && !values.contains_key(&own.name)) {
            let (name, version) = (&parameter.name, version.name());
            match (old_version.find_parameter(name), &parameter.default) {
                (Some(old), _) if old.is_immutable() => {}
                (Some(_), _) => {
                    return Err(format!(
                        "parameter '{name}' was changed to immutable in operator version {version} but no value was provided"
                    ));
                }
                (None, Some(default)) => {
                    return Err(format!(
                        "parameter '{name}' was added in operator version {version}, but no value was provided (default would be {default})"
                    ));
                }
                (None, None) => {
                    return Err(format!(
                        "parameter '{name}' was added in operator version {version}, but no value was provided"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The plan that the changes start: that of the parameters, else update, else deploy.
    pub(super) fn triggered_plan(&self, version: &OperatorVersion) -> Result<Option<String>, String> {
        let mut triggered: Vec<&str> = Vec::new();
        let changes = || self.changed.iter().chain(&self.removed);
        for parameter in changes().filter(|parameter| !parameter.trigger.is_empty()) {
            let (name, trigger) = (&parameter.name, parameter.trigger.as_str());
            if !version.spec.plans.contains_key(trigger) {
                return Err(format!(
                    "param {name} defined trigger plan {trigger}, but plan not defined in operatorversion"
                ));
            }
            if !triggered.contains(&trigger) {
                triggered.push(trigger);
            }
        }
        match triggered.as_slice() {
            _ if changes().next().is_none() => Ok(None),
            [] => {
                let plan = version.select_plan(&[plans::UPDATE, plans::DEPLOY]);
                let plan = plan.ok_or("couldn't find any plans that would be triggered by the update")?;
                Ok(Some(plan.to_owned()))
            }
            [plan] => Ok(Some((*plan).to_owned())),
            several => Err(format!(
                "triggering multiple plans: [[{}]] at once is not allowed",
                several.join(" ")
            )),
        }
    }
}
