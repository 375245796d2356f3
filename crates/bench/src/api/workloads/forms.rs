//! Other forms of writing, each beside a plain create of the same object in JSON on the same server.

use anyhow::Result;
use serde_json::json;

use super::exchange::{self, Exchange};
use crate::{
    api::{
        Setting,
        load::{self, Load, Outcome},
        objects,
        request::{self, Form, Template},
        server::{Parts, Server, new_dir},
    },
    report::{Goal, Measurement, Report},
    turns::Turns,
};

/// One form of writing.
#[derive(Debug)]
struct Written {
    name: &'static str,
    template: Template,
    status: u16,
    /// Whether it changes objects that are there, or makes new ones.
    changes: bool,
    /// How many plain creates it may cost.
    goal: Option<Goal>,
}

pub(crate) async fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let dir = new_dir(setting)?;
    let server = Server::setpoint(setting, dir.path(), Parts::ApiOnly).await?;
    let operations = setting.pick(10_000, 3_000);
    let mut load = Load {
        clients: setting.clients,
        operations,
        first: 0,
    };
    let there = Template::with_body("POST", objects::CONFIG_MAPS, &objects::config_map("there"));
    load::apply(&server, &load, |_| Exchange::new(there.clone(), 201)).await?;
    let create = Template::with_body("POST", objects::CONFIG_MAPS, &objects::config_map("plain"));
    for written in forms() {
        let mut turns: Turns<Outcome> = Turns::default();
        for _ in 0..setting.rounds {
            load.first += operations;
            let plain = |_| Exchange::new(create.clone(), 201);
            turns.baseline.push(load::apply(&server, &load, plain).await?);
            let form = |_| {
                let exchange = Exchange::new(written.template.clone(), written.status);
                if written.changes {
                    exchange.among(operations)
                } else {
                    exchange
                }
            };
            turns.subject.push(load::apply(&server, &load, form).await?);
        }
        exchange::add(report, written.name, &turns, None);
        let over = format!("{}_over_create", written.name);
        let over = Measurement::spread("api", over, turns.ratio(Outcome::server_cpu_us), "creates");
        report.add(match written.goal {
            Some(goal) => over.goal(goal),
            None => over,
        });
    }
    server.stop().await
}

fn forms() -> [Written; 4] {
    let path = |name: &str| format!("{}/{name}-########", objects::CONFIG_MAPS);
    let applied = format!("{}?fieldManager=bench&force=true", path("apply"));
    let applied_again = format!("{}?fieldManager=bench&force=true", path("there"));
    let patch =
        json!({"metadata": {"labels": {"tier": "frontend"}}, "data": {"added": "########"}}).to_string();
    [
        Written {
            name: "apply_new_configmap",
            template: Template::with_form(
                "PATCH",
                &applied,
                request::APPLY,
                objects::config_map("apply").as_bytes(),
            ),
            status: 201,
            changes: false,
            goal: Some(Goal::AtMost(3.0)),
        },
        Written {
            name: "apply_configmap",
            template: Template::with_form(
                "PATCH",
                &applied_again,
                request::APPLY,
                objects::config_map("there").as_bytes(),
            ),
            status: 200,
            changes: true,
            goal: Some(Goal::AtMost(3.0)),
        },
        Written {
            name: "strategic_patch_configmap",
            template: Template::with_form("PATCH", &path("there"), request::STRATEGIC, patch.as_bytes()),
            status: 200,
            changes: true,
            goal: None,
        },
        Written {
            name: "create_configmap_protobuf",
            template: Template::with_form(
                "POST",
                objects::CONFIG_MAPS,
                Form::PROTOBUF,
                &objects::config_map_message("binary"),
            ),
            status: 201,
            changes: false,
            goal: None,
        },
    ]
}
