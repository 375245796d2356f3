//! Label selectors of typed objects (`metav1.LabelSelector`) as selectors that can be matched.

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use setpoint_api::selector::{LabelSelector, ParseSelectorError, Requirement};

/// Converts the `LabelSelector` of an object (apimachinery's `LabelSelectorAsSelector`). An empty one matches every
/// object; an absent one matches none, which the caller handles.
pub fn label_selector(selector: &meta::LabelSelector) -> Result<LabelSelector, ParseSelectorError> {
    let labels = selector.match_labels.iter().flatten();
    let mut requirements = labels
        .flat_map(|(label, value)| LabelSelector::equals(label, value).requirements)
        .collect::<Vec<_>>();
    for expression in selector.match_expressions.iter().flatten() {
        let values = expression.values.iter().flatten().map(String::as_str);
        requirements.push(Requirement::from_expression(
            &expression.key,
            &expression.operator,
            values,
        )?);
    }
    Ok(LabelSelector { requirements })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(selector: serde_json::Value, expected: Result<&str, &str>) {
        let selector: meta::LabelSelector = serde_json::from_value(selector).unwrap();
        let converted = label_selector(&selector).map(|selector| selector.to_string());
        let converted = converted.map_err(|error| error.to_string());
        assert_eq!(converted.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn labels_and_expressions_are_requirements_that_must_all_hold() {
        check(json!({}), Ok(""));
        check(
            json!({
                "matchLabels": {"app": "web"},
                "matchExpressions": [
                    {"key": "tier", "operator": "In", "values": ["a", "b"]},
                    {"key": "zone", "operator": "NotIn", "values": ["x"]},
                    {"key": "owner", "operator": "Exists"},
                    {"key": "canary", "operator": "DoesNotExist"},
                ],
            }),
            Ok("app=web,tier in (a,b),zone!=x,owner,!canary"),
        );
    }

    #[test]
    fn an_unknown_operator_is_an_error() {
        check(
            json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}),
            Err("\"Near\" is not a valid label selector operator"),
        );
    }
}
