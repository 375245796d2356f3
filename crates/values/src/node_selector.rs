//! Requirements of a node selector, which the scheduler and the DaemonSet controller must evaluate alike.

/// Whether a label or field of a node meets a requirement with this operator and these values; `None` if the node lacks
/// it.
///
/// ```
/// use setpoint_values::node_selector::is_met;
///
/// let values = ["7".to_owned()];
/// assert!(is_met("Gt", &values, Some("8")));
/// assert!(is_met("NotIn", &values, None));
/// ```
pub fn is_met(operator: &str, values: &[String], value: Option<&str>) -> bool {
    let is_listed = |value: &str| values.iter().any(|one| one == value);
    let number = |text: &str| text.parse::<i64>().ok();
    let limit = || values.first().and_then(|one| number(one));
    match (operator, value) {
        ("In", Some(value)) => is_listed(value),
        ("NotIn", value) => !value.is_some_and(is_listed),
        ("Exists", value) => value.is_some(),
        ("DoesNotExist", value) => value.is_none(),
        ("Gt", Some(value)) => number(value).zip(limit()).is_some_and(|(own, limit)| own > limit),
        ("Lt", Some(value)) => number(value).zip(limit()).is_some_and(|(own, limit)| own < limit),
        _ => false,
    }
}
