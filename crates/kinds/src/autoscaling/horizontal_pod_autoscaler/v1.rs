//! `autoscaling/v1`: CPU utilization has its own field; all other metrics, their current values, the conditions and
//! the behavior are JSON in annotations.

use setpoint_api::table::Cell;
use setpoint_schema::{Pack, Shape, Tree, fields};
use setpoint_strategy::VersionConversion;
use setpoint_strategy::columns::{AGE, Column, NAME};
use setpoint_strategy::{
    FieldRef, Names, RequestFacts, Rules, Strategy, Subresource, go_dump, meta, normal_form,
};

use super::v1_metrics::{self, SOURCES, STATUSES};
use super::{
    ANNOTATIONS, BEHAVIOR, CONDITIONS, CURRENT_METRICS, METRICS, columns, defaults, drop_annotations,
};
use crate::shared::resources;

#[derive(Debug)]
pub struct HorizontalPodAutoscaler;

type Hub = super::HorizontalPodAutoscaler;

impl Strategy for HorizontalPodAutoscaler {
    const KIND: (&'static str, &'static str, &'static str) = ("autoscaling", "v1", "HorizontalPodAutoscaler");
    const NAMES: Names = Hub::NAMES;
    const COLUMNS: &'static [Column] = &[
        NAME,
        columns::REFERENCE,
        Column::text("Targets", |scaler, _| {
            let mut hub = scaler.value().clone();
            Self::to_hub(&mut hub);
            let (group, version, kind) = Hub::KIND;
            let shape = Pack::builtin().shape_of(group, version, kind);
            let shape = shape.expect("the pack has every built-in kind");
            Cell::from(columns::targets(&FieldRef::read_only(&hub, shape)))
        })
        .description("The current and the target value of each metric."),
        columns::MIN_PODS,
        columns::MAX_PODS,
        columns::REPLICAS,
        AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = Hub::SUBRESOURCES;
    const RULES: Rules = Hub::RULES.internal_field_annotations(&ANNOTATIONS);

    fn default_fields(scaler: &mut Tree) {
        scaler.child(fields::SPEC).set_default(fields::MIN_REPLICAS, 1);
    }

    fn validate(_scaler: &FieldRef<'_>, _facts: &RequestFacts) {}
}

impl VersionConversion for HorizontalPodAutoscaler {
    type Hub = Hub;

    fn to_hub(scaler: &mut Tree) {
        let percent = scaler
            .child(fields::SPEC)
            .take(&[fields::TARGET_CPU_UTILIZATION_PERCENTAGE]);
        let mut measures = read_list(scaler, METRICS, "MetricSpec").unwrap_or_default();
        measures
            .iter_mut()
            .for_each(|measure| v1_metrics::to_v2(measure, SOURCES));
        measures.extend(percent.filter(|percent| !percent.is_null()).map(defaults::cpu));
        if !measures.is_empty() {
            scaler.set(&[fields::SPEC, fields::METRICS], measures);
        }
        if let Some(behavior) = read_behavior(scaler) {
            scaler.set(&[fields::SPEC, fields::BEHAVIOR], behavior);
        }
        status_to_hub(scaler);
        drop_annotations(scaler);
    }

    fn from_hub(scaler: &mut Tree) {
        drop_annotations(scaler);
        let spec = scaler.child(fields::SPEC);
        let behavior = spec
            .take(&[fields::BEHAVIOR])
            .filter(|behavior| !behavior.is_null());
        let measures = spec.take(&[fields::METRICS]);
        let measures = measures.as_ref().and_then(Tree::as_list).unwrap_or_default();
        let (cpu, mut others): (Vec<Tree>, Vec<Tree>) = measures.iter().cloned().partition(is_cpu);
        if let Some(percent) = cpu.first().and_then(|cpu| cpu.at(PERCENT)) {
            spec.set(&[fields::TARGET_CPU_UTILIZATION_PERCENTAGE], percent.clone());
        }
        others
            .iter_mut()
            .for_each(|measure| v1_metrics::to_v1(measure, SOURCES));
        write_list(scaler, METRICS, "MetricSpec", &others);
        if let Some(behavior) = behavior {
            let shape = shape("v2", "HorizontalPodAutoscalerBehavior");
            annotate(scaler, BEHAVIOR, go_dump::dump(shape, &behavior));
        }
        status_from_hub(scaler);
    }
}

const PERCENT: &[&str] = &[fields::RESOURCE, fields::TARGET, fields::AVERAGE_UTILIZATION];

fn is_cpu(measure: &Tree) -> bool {
    measure.str_at(&[fields::TYPE]) == Some("Resource")
        && measure.str_at(&[fields::RESOURCE, fields::NAME]) == Some("cpu")
        && measure.at(PERCENT).is_some_and(|percent| !percent.is_null())
}

/// The annotation has more information than the field, so it takes precedence.
fn status_to_hub(scaler: &mut Tree) {
    let conditions = read_list(scaler, CONDITIONS, "HorizontalPodAutoscalerCondition");
    let measured = read_list(scaler, CURRENT_METRICS, "MetricStatus").map(|mut measured| {
        measured
            .iter_mut()
            .for_each(|one| v1_metrics::to_v2(one, STATUSES));
        measured
    });
    let percent = scaler
        .at_mut(&[fields::STATUS])
        .and_then(|status| status.take(&[fields::CURRENT_CPU_UTILIZATION_PERCENTAGE]))
        .filter(|percent| !percent.is_null());
    let of_field = percent.map(|percent| {
        let mut one = Tree::default();
        one.set(&[fields::TYPE], "Resource");
        one.set(&[fields::RESOURCE, fields::NAME], "cpu");
        one.set(
            &[fields::RESOURCE, fields::CURRENT, fields::AVERAGE_UTILIZATION],
            percent,
        );
        vec![one]
    });
    if let Some(measured) = measured.or(of_field) {
        scaler.set(&[fields::STATUS, fields::CURRENT_METRICS], measured);
    }
    if let Some(conditions) = conditions {
        scaler.set(&[fields::STATUS, fields::CONDITIONS], conditions);
    }
}

fn status_from_hub(scaler: &mut Tree) {
    let Some(status) = scaler.find_mut(fields::STATUS) else {
        return;
    };
    let mut taken = |field: &str| match status.take(&[field]) {
        Some(Tree::List(items)) => items,
        _ => Vec::new(),
    };
    let (mut measured, conditions) = (taken(fields::CURRENT_METRICS), taken(fields::CONDITIONS));
    let percent = measured.iter().rev().find_map(|one| {
        let cpu = one.str_at(&[fields::RESOURCE, fields::NAME]) == Some("cpu");
        one.at(&[fields::RESOURCE, fields::CURRENT, fields::AVERAGE_UTILIZATION])
            .filter(|percent| cpu && !percent.is_null())
    });
    if let Some(percent) = percent {
        status.set(&[fields::CURRENT_CPU_UTILIZATION_PERCENTAGE], percent.clone());
    }
    measured
        .iter_mut()
        .for_each(|one| v1_metrics::to_v1(one, STATUSES));
    write_list(scaler, CURRENT_METRICS, "MetricStatus", &measured);
    write_list(
        scaler,
        CONDITIONS,
        "HorizontalPodAutoscalerCondition",
        &conditions,
    );
}

/// The list in an annotation; `None` if the annotation is missing or does not hold such a list.
fn read_list(scaler: &Tree, annotation: &str, of: &str) -> Option<Vec<Tree>> {
    let Ok(Tree::List(mut items)) = read(scaler, annotation)? else {
        return None;
    };
    let shape = shape("v1", of);
    for item in &mut items {
        let problems = setpoint_schema::prune(shape, item);
        if problems.type_error.is_some() || normal_form::normalise(shape, item).is_err() {
            return None;
        }
    }
    Some(items)
}

/// The behavior in an annotation. Its fields have the names of Kubernetes' internal Go type, in any case.
fn read_behavior(scaler: &Tree) -> Option<Tree> {
    let mut behavior = read(scaler, BEHAVIOR)?.ok()?;
    let shape = shape("v2", "HorizontalPodAutoscalerBehavior");
    rename(shape, &mut behavior);
    let problems = setpoint_schema::prune(shape, &mut behavior);
    let fine = problems.type_error.is_none() && normal_form::normalise(shape, &mut behavior).is_ok();
    let nonempty = behavior.as_map().is_some_and(|map| !map.is_empty());
    (fine && nonempty).then_some(behavior)
}

fn read(scaler: &Tree, annotation: &str) -> Option<Result<Tree, ()>> {
    let text = meta::entry(scaler, fields::ANNOTATIONS, annotation)?;
    Some(setpoint_codec::json::parse(text.as_bytes()).map_err(|_| ()))
}

/// Renames fields to those of the shape, ignoring case.
fn rename(shape: &Shape, tree: &mut Tree) {
    let Some(map) = tree.as_map_mut() else { return };
    for (name, value) in map.pairs_mut() {
        let known = shape.members().iter();
        let Some(field) = { known }.find(|field| field.name.eq_ignore_ascii_case(name)) else {
            continue;
        };
        *name = field.name.clone().into();
        let Some(inner) = field.shape() else { continue };
        match value {
            Tree::List(items) => items.iter_mut().for_each(|item| rename(inner, item)),
            value => rename(inner, value),
        }
    }
}

fn write_list(scaler: &mut Tree, annotation: &str, of: &str, items: &[Tree]) {
    if items.is_empty() {
        return;
    }
    let shape = shape("v1", of);
    let mut text = vec![b'['];
    for item in items {
        if text.len() > 1 {
            text.push(b',');
        }
        setpoint_schema::write_into(shape, item, &mut text);
    }
    text.push(b']');
    let text = String::from_utf8(text).expect("JSON is UTF-8");
    annotate(scaler, annotation, text);
}

fn annotate(scaler: &mut Tree, annotation: &str, text: String) {
    let annotations = scaler
        .child(fields::METADATA)
        .child(fields::ANNOTATIONS)
        .map_or_default();
    annotations.insert(annotation, text);
    resources::sort(annotations);
}

fn shape(version: &str, name: &str) -> &'static Shape {
    let shape = Pack::builtin().find_shape(&format!("api.autoscaling.{version}.{name}"));
    shape.expect("the pack has every type of this group")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURES: &str = r#"[{"type":"Object","object":{"target":{"kind":"Service","name":"s","apiVersion":"v1"},"metricName":"rate","targetValue":"100"}},{"type":"Object","object":{"target":{"kind":"Service","name":"s"},"metricName":"rate","targetValue":"0","averageValue":"7"}},{"type":"Pods","pods":{"metricName":"queue","targetAverageValue":"30"}},{"type":"External","external":{"metricName":"q","metricSelector":{"matchLabels":{"a":"b"}},"targetAverageValue":"3"}},{"type":"ContainerResource","containerResource":{"name":"memory","targetAverageUtilization":60,"container":"c"}}]"#;
    const MEASURED: &str = r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":40,"currentAverageValue":"20m"}},{"type":"External","external":{"metricName":"q","currentValue":"9"}}]"#;
    const RULES: &str = r#"{"ScaleUp":{"StabilizationWindowSeconds":5,"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":"50m"},"ScaleDown":null}"#;
    const STATES: &str = r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z","reason":"a\u003eb"}]"#;

    #[test]
    fn conversion_to_the_storage_version_and_back_loses_nothing() {
        let mut scaler = Tree::default();
        scaler.set(&["spec", "maxReplicas"], 3);
        scaler.set(&["spec", "targetCPUUtilizationPercentage"], 50);
        scaler.set(&["status", "currentCPUUtilizationPercentage"], 40);
        for (annotation, text) in [
            (BEHAVIOR, RULES),
            (CONDITIONS, STATES),
            (CURRENT_METRICS, MEASURED),
            (METRICS, MEASURES),
        ] {
            scaler.set(&["metadata", "annotations", annotation], text);
        }
        let before = scaler.clone();
        HorizontalPodAutoscaler::to_hub(&mut scaler);
        assert!(meta::find(&scaler, "annotations").is_none(), "{scaler:?}");
        assert_eq!(scaler.at(&["spec"]).unwrap().items("metrics").len(), 6);
        HorizontalPodAutoscaler::from_hub(&mut scaler);
        assert!(scaler.semantic_eq(&before), "{scaler:#?}\n{before:#?}");
    }

    #[test]
    fn an_invalid_annotation_is_ignored() {
        let mut scaler = Tree::default();
        scaler.set(&["metadata", "annotations", METRICS], "[{\"type\":1}]");
        scaler.set(&["metadata", "annotations", BEHAVIOR], "{");
        HorizontalPodAutoscaler::to_hub(&mut scaler);
        assert!(scaler.at(&["spec", "metrics"]).is_none());
        assert!(scaler.at(&["spec", "behavior"]).is_none());
    }
}
