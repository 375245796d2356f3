//! `setpoint template`: renders a Go template to standard output.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value as Json};
use setpoint_api::{Clock, SystemClock};
use setpoint_codec::{from_tree, yaml};
use setpoint_template::{Environment, Functions, MissingKey, NumberType, Template, Value};

/// The arguments of `setpoint template`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file with the template. `-` means standard input.
    pub file: PathBuf,
    /// A YAML or JSON file with the data. Several are merged in their order.
    #[arg(long, short = 'f', value_name = "FILE")]
    pub values: Vec<PathBuf>,
    /// A value of the data, such as `a.b=c`. Numbers, true, false and null have their own types.
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Fail if the template uses a key that the data does not have.
    #[arg(long)]
    pub strict: bool,
}

/// Renders the template and prints the text as it is.
pub fn run(args: &Args) -> Result<()> {
    let text = read(&args.file)?;
    print!("{}", render(args, &text, SystemClock::new().now())?);
    Ok(())
}

fn render(args: &Args, text: &str, now: jiff::Timestamp) -> Result<String> {
    let missing_key = if args.strict {
        MissingKey::Error
    } else {
        MissingKey::Default
    };
    let name = args.file.file_name().unwrap_or_default().to_string_lossy();
    let template = Template::new(name)
        .with_functions(Functions::sprig())
        .with_missing_key(missing_key)
        .parse(text)?;
    let environment = Environment {
        now: Some(now),
        ..Environment::default()
    };
    let data = data(&args.values, &args.set)?;
    Ok(template.render(Value::from_json(&data, NumberType::Int64), &environment)?)
}

fn read(path: &Path) -> Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("cannot read standard input")?;
        return Ok(text);
    }
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn data(files: &[PathBuf], settings: &[String]) -> Result<Json> {
    let mut data = Json::Object(Map::new());
    for file in files {
        let tree = yaml::parse(read(file)?.as_bytes())
            .with_context(|| format!("cannot parse {}", file.display()))?;
        let values: BTreeMap<String, Json> =
            from_tree(&tree).with_context(|| format!("{} is not a YAML map", file.display()))?;
        merge(&mut data, Json::Object(values.into_iter().collect()));
    }
    for setting in settings {
        let Some((path, value)) = setting.split_once('=') else {
            bail!("invalid value {setting:?} of --set: expected PATH=VALUE, such as a.b=c");
        };
        merge(&mut data, nested(path, scalar(value)));
    }
    Ok(data)
}

/// Merges maps deeply; other values replace those before them.
fn merge(target: &mut Json, source: Json) {
    match (target, source) {
        (Json::Object(target), Json::Object(source)) => {
            for (key, value) in source {
                merge(target.entry(key).or_insert(Json::Null), value);
            }
        }
        (target, source) => *target = source,
    }
}

/// The value inside of maps, one for each key of the path.
fn nested(path: &str, value: Json) -> Json {
    path.rsplit('.').fold(value, |value, key| {
        Json::Object(Map::from_iter([(key.to_owned(), value)]))
    })
}

fn scalar(text: &str) -> Json {
    match text {
        "true" => Json::Bool(true),
        "false" => Json::Bool(false),
        "null" => Json::Null,
        _ => match text.parse::<i64>() {
            Ok(number) if number.to_string() == text => Json::from(number),
            _ => Json::String(text.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(template: &str, set: &[&str], expected: Result<&str, &str>) {
        let args = Args {
            file: PathBuf::from("dir/page.tpl"),
            values: Vec::new(),
            set: set.iter().map(|setting| (*setting).to_owned()).collect(),
            strict: true,
        };
        let rendered = render(&args, template, jiff::Timestamp::UNIX_EPOCH);
        let rendered = rendered.map_err(|error| error.to_string());
        assert_eq!(rendered, expected.map(str::to_owned).map_err(str::to_owned));
    }

    #[test]
    fn settings_are_values_of_the_data() {
        check("{{.a.b}} {{.a.c}}", &["a.b=x", "a.c=7"], Ok("x 7"));
        check(
            "{{typeOf .n}} {{typeOf .s}} {{typeOf .t}}",
            &["n=7", "s=07", "t=true"],
            Ok("int64 string bool"),
        );
        check("{{.a}}", &["a=1", "a=2"], Ok("2"));
        check("{{.a}}", &["a=x=y"], Ok("x=y"));
    }

    #[test]
    fn an_error_names_the_file_and_the_position() {
        let missing = r#"template: page.tpl:2:3: executing "page.tpl" at <.a>: map has no entry for key "a""#;
        check("\n {{.a}}", &[], Err(missing));
        check(
            "{{nope}}",
            &[],
            Err(r#"template: page.tpl:1: function "nope" not defined"#),
        );
        check(
            "",
            &["a"],
            Err("invalid value \"a\" of --set: expected PATH=VALUE, such as a.b=c"),
        );
    }

    #[test]
    fn now_is_the_time_of_the_clock() {
        check(r#"{{now | date "2006-01-02"}}"#, &[], Ok("1970-01-01"));
    }
}
