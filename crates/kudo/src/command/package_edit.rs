//! `package new` and `package add`: the files of a package, written by flags. Upstream's `add` prompts for what is flags
//! here. Files are written with sorted keys and without comments, as upstream does.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use setpoint_kuttl::manifest;

use crate::api::API_VERSION;

const OPERATOR: &str = "operator.yaml";
const PARAMS: &str = "params.yaml";

/// The flags of `package new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// The name of the operator.
    name: String,
    /// The directory of the package.
    #[arg(long, default_value = "operator")]
    directory: PathBuf,
    /// Replace operator.yaml of an existing directory.
    #[arg(long, short = 'w')]
    overwrite: bool,
}

/// The commands of `package add`. The package is the current directory, or the only directory in it with an operator.yaml.
#[derive(Debug, Subcommand)]
pub enum AddCommand {
    /// Add a maintainer to operator.yaml.
    Maintainer {
        /// The name.
        name: String,
        /// The email address.
        email: String,
    },
    /// Add a parameter to params.yaml.
    Parameter(ParameterArgs),
    /// Add a task to operator.yaml, and empty files of its templates if there are none.
    Task(TaskArgs),
    /// Add a plan to operator.yaml.
    Plan(PlanArgs),
}

/// The flags of `package add parameter`.
#[derive(Debug, Args)]
pub struct ParameterArgs {
    /// The name.
    name: String,
    /// The default value.
    #[arg(long)]
    default: Option<String>,
    /// The name that users read.
    #[arg(long)]
    display_name: Option<String>,
    /// What it is for.
    #[arg(long)]
    description: Option<String>,
    /// Whether a value is required.
    #[arg(long)]
    required: bool,
    /// The plan that a change starts.
    #[arg(long)]
    trigger: Option<String>,
}

/// The flags of `package add task`.
#[derive(Debug, Args)]
pub struct TaskArgs {
    /// The name.
    name: String,
    /// The kind.
    #[arg(long, default_value = "Apply", value_parser = ["Apply", "Delete", "Pipe", "Toggle"])]
    kind: String,
    /// A template of an Apply, Delete or Toggle task. It may be repeated.
    #[arg(long)]
    resource: Vec<String>,
    /// The parameter of a Toggle task.
    #[arg(long)]
    parameter: Option<String>,
    /// The template of the pod of a Pipe task.
    #[arg(long)]
    pod: Option<String>,
    /// A file of a Pipe task, with the kind and the key of its artifact: `/tmp/cert,Secret,cert`. It may be repeated.
    #[arg(long)]
    pipe: Vec<String>,
}

/// The flags of `package add plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The name.
    name: String,
    /// The order of phases and of steps.
    #[arg(long, default_value = "serial", value_parser = ["serial", "parallel"])]
    strategy: String,
    /// A step, its phase and its tasks: `main/deploy=task,task`. It may be repeated.
    #[arg(long, required = true)]
    step: Vec<String>,
}

pub(super) fn new(args: &NewArgs) -> Result<()> {
    let directory = &args.directory;
    ensure!(
        args.overwrite || !directory.exists(),
        "folder {:?} already exists",
        directory.display().to_string()
    );
    ensure!(
        !Path::new(OPERATOR).exists(),
        "operator.yaml exists in the current directory.  creating an operator in an operator is not supported"
    );
    std::fs::create_dir_all(directory)?;
    write(&directory.join(OPERATOR), &new_operator(&args.name))?;
    let params = directory.join(PARAMS);
    if !params.exists() {
        write(&params, &json!({"apiVersion": API_VERSION, "parameters": []}))?;
    }
    println!("Operator created. Use the package add commands to extend it.");
    Ok(())
}

pub(super) fn add(command: &AddCommand) -> Result<()> {
    let package = find_package(&std::env::current_dir()?)?;
    match command {
        AddCommand::Maintainer { name, email } => change(&package.join(OPERATOR), |operator| {
            push(operator, "maintainers", json!({"email": email, "name": name}))
        }),
        AddCommand::Parameter(args) => change(&package.join(PARAMS), |params| {
            ensure_unique(&params["parameters"], "parameter", &args.name)?;
            push(params, "parameters", parameter(args))
        }),
        AddCommand::Task(args) => {
            let task = task(args)?;
            create_templates(&package, args)?;
            change(&package.join(OPERATOR), |operator| {
                ensure_unique(&operator["tasks"], "task", &args.name)?;
                push(operator, "tasks", task)
            })
        }
        AddCommand::Plan(args) => change(&package.join(OPERATOR), |operator| {
            ensure!(
                operator["plans"].get(&args.name).is_none(),
                "plan name must be unique"
            );
            operator["plans"][&args.name] = plan(args)?;
            Ok(())
        }),
    }
}

fn new_operator(name: &str) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "appVersion": "0.1.0",
        "kubernetesVersion": "0.16.0",
        "kudoVersion": env!("CARGO_PKG_VERSION"),
        "maintainers": [{"email": "MyEmail@invalid", "name": "My Name"}],
        "name": name,
        "operatorVersion": "0.1.0",
        "plans": {"deploy": {
            "phases": [{
                "name": "deploy",
                "steps": [{"name": "deploy", "tasks": ["deploy"]}],
                "strategy": "serial",
            }],
            "strategy": "serial",
        }},
        "tasks": [{"kind": "Apply", "name": "deploy", "spec": {"resources": []}}],
    })
}

/// The directory with operator.yaml: this one, or the only one in it that has the file.
fn find_package(directory: &Path) -> Result<PathBuf> {
    if directory.join(OPERATOR).exists() {
        return Ok(directory.to_owned());
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.join(OPERATOR).exists() {
            found.push(path);
        }
    }
    match found.len() {
        0 => bail!("no operator folder discovered"),
        1 => Ok(found.remove(0)),
        _ => bail!("multiple operator folders discovered"),
    }
}

fn parameter(args: &ParameterArgs) -> Value {
    let mut parameter = Map::new();
    let texts = [
        ("default", &args.default),
        ("description", &args.description),
        ("displayName", &args.display_name),
        ("trigger", &args.trigger),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            parameter.insert(key.to_owned(), text.as_str().into());
        }
    }
    parameter.insert("name".to_owned(), args.name.as_str().into());
    if args.required {
        parameter.insert("required".to_owned(), true.into());
    }
    parameter.into()
}

fn task(args: &TaskArgs) -> Result<Value> {
    let mut spec = json!({});
    match args.kind.as_str() {
        "Pipe" => {
            let pod = args.pod.as_deref().context("a Pipe task needs --pod")?;
            spec["pod"] = file_name(pod).into();
            spec["pipe"] = args.pipe.iter().map(|text| pipe(text)).collect::<Result<_>>()?;
        }
        _ => {
            let resources: Vec<String> = args.resource.iter().map(|name| file_name(name)).collect();
            spec["resources"] = resources.into();
        }
    }
    if args.kind == "Toggle" {
        let parameter = args.parameter.as_deref();
        spec["parameter"] = parameter.context("a Toggle task needs --parameter")?.into();
    }
    Ok(json!({"kind": args.kind, "name": args.name, "spec": spec}))
}

fn pipe(text: &str) -> Result<Value> {
    let mut fields = text.splitn(3, ',');
    let (Some(file), Some(kind), Some(key)) = (fields.next(), fields.next(), fields.next()) else {
        bail!("expected FILE,KIND,KEY and not {text:?}");
    };
    Ok(json!({"file": file, "key": key, "kind": kind}))
}

fn plan(args: &PlanArgs) -> Result<Value> {
    let mut phases: Vec<Value> = Vec::new();
    for text in &args.step {
        let parts = text
            .split_once('=')
            .and_then(|(path, tasks)| Some((path.split_once('/')?, tasks)));
        let ((phase, step), tasks) =
            parts.with_context(|| format!("expected PHASE/STEP=TASK,TASK and not {text:?}"))?;
        let tasks: Vec<&str> = tasks.split(',').collect();
        let step = json!({"name": step, "tasks": tasks});
        match phases.iter_mut().find(|own| own["name"] == phase) {
            Some(own) => push(own, "steps", step)?,
            None => phases.push(json!({"name": phase, "steps": [step], "strategy": args.strategy})),
        }
    }
    Ok(json!({"phases": phases, "strategy": args.strategy}))
}

/// Creates the templates of a task that do not exist, empty.
fn create_templates(package: &Path, args: &TaskArgs) -> Result<()> {
    for name in args.resource.iter().chain(&args.pod) {
        let path = package.join("templates").join(file_name(name));
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        if !path.exists() {
            std::fs::write(&path, "")?;
        }
    }
    Ok(())
}

fn file_name(name: &str) -> String {
    match name.contains('.') {
        true => name.to_owned(),
        false => format!("{name}.yaml"),
    }
}

fn ensure_unique(items: &Value, what: &str, name: &str) -> Result<()> {
    let mut items = items.as_array().into_iter().flatten();
    ensure!(
        items.all(|item| item["name"] != name),
        "{what} name must be unique"
    );
    Ok(())
}

fn push(value: &mut Value, key: &str, item: Value) -> Result<()> {
    let items = &mut value[key];
    if items.is_null() {
        *items = json!([]);
    }
    let items = items.as_array_mut();
    items.with_context(|| format!("{key} is not a list"))?.push(item);
    Ok(())
}

fn change(path: &Path, change: impl FnOnce(&mut Value) -> Result<()>) -> Result<()> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut value = manifest::parse_value(&text).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    change(&mut value)?;
    write(path, &value)
}

fn write(path: &Path, value: &Value) -> Result<()> {
    let text = manifest::to_yaml(value).map_err(|error| anyhow!(error))?;
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::files::read_dir;
    use crate::package::{PackageFiles, verify};

    /// TO7
    #[test]
    fn a_new_package_with_a_task_and_a_parameter_is_valid() {
        let directory = tempfile::tempdir().unwrap();
        let package = directory.path().join("operator");
        let args = NewArgs {
            name: "db".to_owned(),
            directory: package.clone(),
            overwrite: false,
        };
        new(&args).unwrap();
        assert_eq!(find_package(directory.path()).unwrap(), package);
        let error = new(&args).unwrap_err().to_string();
        assert!(error.contains("already exists"), "{error}");
        let task_args = TaskArgs {
            name: "app".to_owned(),
            kind: "Apply".to_owned(),
            resource: vec!["service".to_owned()],
            parameter: None,
            pod: None,
            pipe: Vec::new(),
        };
        create_templates(&package, &task_args).unwrap();
        change(&package.join(OPERATOR), |operator| {
            push(operator, "tasks", task(&task_args)?)
        })
        .unwrap();
        let contents = read_dir(&package).unwrap();
        assert!(contents.contains_key("templates/service.yaml"));
        let files = PackageFiles::parse(&contents).unwrap();
        assert_eq!(files.operator.tasks[1].spec.resources, ["service.yaml"]);
        assert_eq!(verify::verify(&files).errors, Vec::<String>::new());
    }

    /// TO7
    #[test]
    fn steps_of_one_phase_are_together() {
        let args = PlanArgs {
            name: "backup".to_owned(),
            strategy: "parallel".to_owned(),
            step: ["main/a=x,y", "end/c=z", "main/b=z"].map(str::to_owned).into(),
        };
        let steps = json!([{"name": "a", "tasks": ["x", "y"]}, {"name": "b", "tasks": ["z"]}]);
        let plan = plan(&args).unwrap();
        assert_eq!(plan["phases"][0]["steps"], steps);
        assert_eq!(plan["phases"][1]["name"], "end");
        assert_eq!(plan["strategy"], "parallel");
    }

    /// TO7
    #[test]
    fn a_parameter_has_the_fields_that_were_set() {
        let args = ParameterArgs {
            name: "SIZE".to_owned(),
            default: Some("1".to_owned()),
            display_name: None,
            description: None,
            required: false,
            trigger: Some("deploy".to_owned()),
        };
        let expected = json!({"name": "SIZE", "default": "1", "trigger": "deploy"});
        assert_eq!(parameter(&args), expected);
        let error = ensure_unique(&json!([expected]), "parameter", "SIZE").unwrap_err();
        assert_eq!(error.to_string(), "parameter name must be unique");
    }
}
