//! Files of a step as objects: templates are rendered, and files that are not for this run are left out.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, bail};
use jiff::Timestamp;
use serde_json::Value as Json;
use setpoint_template::{Environment, Functions, Template, Value};

use crate::manifest;
use crate::object_client::gvk_of;
use crate::step_file::StepFile;

/// What the files of a case depend on besides their contents.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileContext {
    /// `Namespace` of templates.
    pub(crate) namespace: String,
    /// `Vars` of templates.
    pub(crate) variables: BTreeMap<String, String>,
    /// The labels of the run, which a TestFile selects.
    pub(crate) run_labels: BTreeMap<String, String>,
    /// The time of `now` in templates.
    pub(crate) now: Option<Timestamp>,
}

impl FileContext {
    /// The objects of a file; none if its TestFile selects other runs.
    pub(crate) fn read(&self, file: &StepFile) -> Result<Vec<Json>> {
        let path = file.path.display();
        let text = std::fs::read_to_string(&file.path).with_context(|| format!("cannot read {path}"))?;
        let text = match file.is_template {
            true => self
                .render(&text)
                .map_err(|error| anyhow!("failed to render text/template from file {path}: {error}"))?,
            false => text,
        };
        let objects = manifest::parse_objects(&text).map_err(|error| anyhow!("loading {path}: {error}"))?;
        self.select(objects).with_context(|| format!("loading {path}"))
    }

    fn render(&self, text: &str) -> Result<String, setpoint_template::Error> {
        let variables = self.variables.iter();
        let variables = variables.map(|(name, value)| (name.clone(), Value::string(value.as_str())));
        let data = [
            ("Namespace".to_owned(), Value::string(self.namespace.as_str())),
            ("Vars".to_owned(), Value::map(variables.collect())),
        ];
        let environment = Environment {
            now: self.now,
            ..Environment::default()
        };
        let template = Template::new("step").with_functions(Functions::sprig());
        template
            .parse(text)?
            .render(Value::map(data.into()), &environment)
    }

    fn select(&self, objects: Vec<Json>) -> Result<Vec<Json>> {
        let is_test_file =
            |object: &Json| gvk_of(object).group == "kuttl.dev" && object["kind"] == "TestFile";
        let (test_files, objects): (Vec<Json>, Vec<Json>) = objects.into_iter().partition(is_test_file);
        match test_files.as_slice() {
            [] => Ok(objects),
            [one] if self.is_selected(&one["testRunSelector"])? => Ok(objects),
            [_] => Ok(Vec::new()),
            _ => bail!("more than one TestFile"),
        }
    }

    /// Whether a label selector matches the labels of the run. An empty one matches all runs.
    fn is_selected(&self, selector: &Json) -> Result<bool> {
        let labels = selector["matchLabels"].as_object().into_iter().flatten();
        for (label, value) in labels {
            if self.run_labels.get(label).map(String::as_str) != value.as_str() {
                return Ok(false);
            }
        }
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            if !self.matches(expression)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn matches(&self, expression: &Json) -> Result<bool> {
        let value = self
            .run_labels
            .get(expression["key"].as_str().unwrap_or_default());
        let values = expression["values"].as_array().into_iter().flatten();
        let is_in = values
            .filter_map(Json::as_str)
            .any(|own| Some(own) == value.map(String::as_str));
        match expression["operator"].as_str().unwrap_or_default() {
            "In" => Ok(is_in),
            "NotIn" => Ok(!is_in),
            "Exists" => Ok(value.is_some()),
            "DoesNotExist" => Ok(value.is_none()),
            other => bail!("{other:?} is not a valid label selector operator"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn context() -> FileContext {
        let pair = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
        FileContext {
            namespace: "ns".to_owned(),
            variables: pair("image", "busybox"),
            run_labels: pair("flavor", "a"),
            now: None,
        }
    }

    #[track_caller]
    fn check(selector: &str, expected: &[Json]) {
        let text = format!(
            "apiVersion: kuttl.dev/v1beta1\nkind: TestFile\ntestRunSelector: {selector}\n---\nkind: Pod\n"
        );
        let objects = manifest::parse_objects(&text).unwrap();
        assert_eq!(context().select(objects).unwrap(), expected);
    }

    #[test]
    fn a_test_file_selects_runs_by_their_labels() {
        let pod = json!({"kind": "Pod"});
        check("{}", std::slice::from_ref(&pod));
        check("{matchLabels: {flavor: a}}", std::slice::from_ref(&pod));
        check("{matchLabels: {flavor: b}}", &[]);
        check("{matchExpressions: [{key: flavor, operator: Exists}]}", &[pod]);
        check(
            "{matchExpressions: [{key: flavor, operator: NotIn, values: [a, c]}]}",
            &[],
        );
    }

    #[test]
    fn a_template_has_the_namespace_and_the_variables() {
        let text = "name: {{ .Namespace }}-{{ .Vars.image | upper }}";
        assert_eq!(context().render(text).unwrap(), "name: ns-BUSYBOX");
    }
}
