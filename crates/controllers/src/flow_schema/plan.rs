//! What is said of a flow schema: decided, not done.

use k8s_openapi::api::flowcontrol::v1::FlowSchemaCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

const DANGLING: &str = "Dangling";

/// The condition that says whether the level is missing; nothing if it stands there already.
pub(super) fn dangling(
    before: &[FlowSchemaCondition],
    level: &str,
    is_there: bool,
    now: Time,
) -> Option<FlowSchemaCondition> {
    let named = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?}");
    let (status, reason, message) = match is_there {
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
    fn a_missing_level_is_told_once() {
        let now = || Time("2026-01-01T00:00:00Z".parse().unwrap());
        let told = dangling(&[], "gone", false, now()).unwrap();
        assert_eq!(
            told.message.as_deref(),
            Some(
                r#"This FlowSchema references the PriorityLevelConfiguration object named "gone" but there is no such object"#
            )
        );
        assert_eq!(dangling(std::slice::from_ref(&told), "gone", false, now()), None);
        let found = dangling(&[told], "gone", true, now()).unwrap();
        assert_eq!(
            (found.status.as_deref(), found.reason.as_deref()),
            (Some("False"), Some("Found"))
        );
    }
}
