//! The `Dangling` condition of a FlowSchema. Pure.

use k8s_openapi::api::flowcontrol::v1::FlowSchemaCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

const DANGLING: &str = "Dangling";

/// The condition with this state; `None` if the schema has it already.
pub(super) fn dangling(
    before: &[FlowSchemaCondition],
    level: &str,
    exists: bool,
    now: Time,
) -> Option<FlowSchemaCondition> {
    let named = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?}");
    let (status, reason, message) = match exists {
        true => ("False", "Found", format!("{named} and it exists")),
        false => ("True", "NotFound", format!("{named} but there is no such object")),
    };
    let same = |condition: &FlowSchemaCondition| {
        condition.type_ == DANGLING
            && condition.status.as_deref() == Some(status)
            && condition.reason.as_deref() == Some(reason)
            && condition.message.as_deref() == Some(message.as_str())
    };
    if before.iter().any(same) {
        return None;
    }
    Some(FlowSchemaCondition {
        type_: DANGLING.to_owned(),
        status: Some(status.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: Some(now),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_level_is_reported_once() {
        let now = || Time("2026-01-01T00:00:00Z".parse().unwrap());
        let condition = dangling(&[], "gone", false, now()).unwrap();
        assert_eq!(
            condition.message.as_deref(),
            Some(
                r#"This FlowSchema references the PriorityLevelConfiguration object named "gone" but there is no such object"#
            )
        );
        assert_eq!(
            dangling(std::slice::from_ref(&condition), "gone", false, now()),
            None
        );
        let found = dangling(&[condition], "gone", true, now()).unwrap();
        assert_eq!(
            (found.status.as_deref(), found.reason.as_deref()),
            (Some("False"), Some("Found"))
        );
    }
}
