//! The objects of a package: Operator, OperatorVersion and Instance.

use anyhow::{Result, anyhow, bail};

use super::files::{PackageFiles, PackageParameter};
use crate::api::{
    Instance, Operator, OperatorSpec, OperatorVersion, Parameter, Task, labels, operator_version_name,
};
use crate::parameters::wrap_value;

/// The objects of a package.
#[allow(missing_docs, reason = "the fields are named by their kinds")]
#[derive(Debug, Clone, Default)]
pub struct Resources {
    pub operator: Operator,
    pub operator_version: OperatorVersion,
    pub instance: Instance,
}

impl Resources {
    /// Converts the files of a package.
    pub fn from_files(files: &PackageFiles) -> Result<Self> {
        let errors: Vec<String> = files
            .operator
            .tasks
            .iter()
            .flat_map(|task| check_task(task, files))
            .collect();
        if !errors.is_empty() {
            bail!("{}", errors.join("\n"));
        }
        let file = &files.operator;
        let mut resources = Self::default();
        resources.operator.metadata.name = Some(file.name.clone());
        resources.operator.spec = OperatorSpec {
            description: file.description.clone(),
            kudo_version: file.kudo_version.clone(),
            kubernetes_version: file.kubernetes_version.clone(),
            maintainers: file.maintainers.clone(),
            url: file.url.clone(),
            namespace_manifest: file.namespace_manifest.clone(),
        };
        let version = &mut resources.operator_version;
        let name = operator_version_name(&file.name, &file.app_version, &file.operator_version);
        version.metadata.name = Some(name.clone());
        version.spec.operator.name = Some(file.name.clone());
        version.spec.operator.kind = Some("Operator".to_owned());
        version.spec.app_version.clone_from(&file.app_version);
        version.spec.version.clone_from(&file.operator_version);
        version.spec.templates.clone_from(&files.templates);
        version.spec.tasks.clone_from(&file.tasks);
        version.spec.plans.clone_from(&file.plans);
        version.spec.parameters = files
            .params
            .parameters
            .iter()
            .map(parameter)
            .collect::<Result<_>>()?;
        let instance = &mut resources.instance;
        instance.metadata.name = Some(format!("{}-instance", file.name));
        instance.metadata.labels = Some([(labels::OPERATOR.to_owned(), file.name.clone())].into());
        instance.spec.operator_version.name = Some(name);
        Ok(resources)
    }

    /// Puts all objects into a namespace.
    pub fn set_namespace(&mut self, namespace: &str) {
        for metadata in [
            &mut self.operator.metadata,
            &mut self.operator_version.metadata,
            &mut self.instance.metadata,
        ] {
            metadata.namespace = Some(namespace.to_owned());
        }
    }
}

/// The errors of a task: fields that its kind needs, and templates that do not exist.
pub(super) fn check_task(task: &Task, files: &PackageFiles) -> Vec<String> {
    let (mut errors, mut resources) = (Vec::new(), task.spec.resources.clone());
    match task.kind.as_str() {
        "Apply" | "Delete" | "Dummy" => {}
        "Toggle" => {
            if task.spec.parameter.is_empty() {
                errors.push(format!(
                    "toggle task {} does not have parameter specified",
                    task.name
                ));
            }
        }
        "Pipe" => {
            resources = vec![task.spec.pod.clone()];
            if task.spec.pipe.is_empty() {
                errors.push(format!("task {} does not have pipe files specified", task.name));
            }
        }
        "KudoOperator" => {
            let file = Some(&task.spec.parameter_file).filter(|file| !file.is_empty());
            resources = file.into_iter().cloned().collect();
        }
        kind => errors.push(format!("unknown task kind {kind}")),
    }
    let missing = resources
        .iter()
        .filter(|name| !files.templates.contains_key(*name));
    errors.extend(missing.map(|name| format!("task {} missing template: {name}", task.name)));
    errors
}

fn parameter(parameter: &PackageParameter) -> Result<Parameter> {
    let wrap = |value: &serde_json::Value| {
        let wrapped = wrap_value(value, parameter.value_type);
        wrapped.map_err(|error| {
            anyhow!(
                "failed to convert default for parameter '{}': {error}",
                parameter.name
            )
        })
    };
    let default = match &parameter.default {
        Some(default) => wrap(default)?,
        None => None,
    };
    let allowed = parameter.allowed.as_ref().map(|allowed| {
        let wrapped: Result<Vec<Option<String>>> = allowed.iter().map(wrap).collect();
        wrapped.map(|values| values.into_iter().flatten().collect())
    });
    Ok(Parameter {
        display_name: parameter.display_name.clone(),
        name: parameter.name.clone(),
        description: parameter.description.clone(),
        required: parameter.required,
        default,
        trigger: parameter.trigger.clone(),
        value_type: parameter.value_type,
        immutable: parameter.immutable,
        allowed: allowed.transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(operator: &str, params: &str) -> Result<Resources, String> {
        let contents = [
            ("operator.yaml", operator),
            ("params.yaml", params),
            ("templates/a/b.yaml", "x"),
        ];
        let contents = contents.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
        let files = PackageFiles::parse(&contents.into()).map_err(|error| error.to_string())?;
        Resources::from_files(&files).map_err(|error| error.to_string())
    }

    const OPERATOR: &str = "name: db\noperatorVersion: '0.1.0'\nappVersion: 5.7\ntasks:\n- {name: t, kind: Apply, spec: {resources: [a/b.yaml]}}\nplans: {deploy: {strategy: serial, phases: []}}\n";

    /// TO7
    #[test]
    fn a_package_is_an_operator_a_version_and_an_instance() {
        let params =
            "parameters:\n- {name: A, default: 3}\n- {name: B, type: map, default: {x: z}}\n- {name: C}\n";
        let resources = check(OPERATOR, params).unwrap();
        assert_eq!(resources.operator_version.name(), "db-5.7-0.1.0");
        assert_eq!(resources.instance.name(), "db-instance");
        let parameters = &resources.operator_version.spec.parameters;
        let defaults: Vec<Option<&str>> = parameters.iter().map(|own| own.default.as_deref()).collect();
        assert_eq!(defaults, [Some("3"), Some("x: z\n"), None]);
        assert!(parameters.iter().all(Parameter::is_required));
        assert_eq!(resources.operator_version.spec.templates["a/b.yaml"], "x");
    }

    /// TO7
    #[test]
    fn a_missing_template_is_an_error() {
        let operator = OPERATOR.replace("a/b.yaml", "c.yaml");
        assert_eq!(
            check(&operator, "parameters: []").unwrap_err(),
            "task t missing template: c.yaml"
        );
        let operator = OPERATOR.replace("Apply", "Nap");
        assert_eq!(
            check(&operator, "parameters: []").unwrap_err(),
            "unknown task kind Nap"
        );
    }

    /// TO7
    #[test]
    fn another_version_of_the_format_is_an_error() {
        let operator = format!("apiVersion: kudo.dev/v9\n{OPERATOR}");
        let expected = "expecting supported API version kudo.dev/v1beta1 but got kudo.dev/v9";
        assert_eq!(check(&operator, "parameters: []").unwrap_err(), expected);
    }
}
