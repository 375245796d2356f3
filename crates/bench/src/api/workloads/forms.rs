//! Applies, patches and protobuf creates, each paired with a JSON create of the same object on the same server.

use anyhow::Result;
use serde_json::json;

use super::exchange::{self, Exchange};
use crate::{
    api::{
        Setting,
        load::{self, Load, Outcome},
        objects,
        request::{self, Encoding, Template},
        server::{Server, ServerComponents, new_dir},
    },
    paired_rounds::PairedRounds,
    report::{Goal, Measurement, Report},
};

/// One type of write.
#[derive(Debug)]
struct WriteVariant {
    name: &'static str,
    template: Template,
    status: u16,
    /// Whether it changes existing objects, or creates new ones.
    changes: bool,
    /// The bound on its cost, in JSON creates.
    goal: Option<Goal>,
}

pub(crate) async fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let dir = new_dir(setting)?;
    let server = Server::setpoint(setting, dir.path(), ServerComponents::ApiOnly).await?;
    let operations = setting.full_or_quick(10_000, 3_000);
    let mut load = Load {
        clients: setting.clients,
        operations,
        first: 0,
    };
    let there = Template::with_body("POST", objects::CONFIG_MAPS, &objects::config_map("there"));
    load::apply(&server, &load, |_| Exchange::new(there.clone(), 201)).await?;
    let create = Template::with_body("POST", objects::CONFIG_MAPS, &objects::config_map("plain"));
    for variant in variants() {
        let mut rounds: PairedRounds<Outcome> = PairedRounds::default();
        for _ in 0..setting.rounds {
            load.first += operations;
            let plain = |_| Exchange::new(create.clone(), 201);
            rounds.baseline.push(load::apply(&server, &load, plain).await?);
            let form = |_| {
                let exchange = Exchange::new(variant.template.clone(), variant.status);
                if variant.changes {
                    exchange.among(operations)
                } else {
                    exchange
                }
            };
            rounds.subject.push(load::apply(&server, &load, form).await?);
        }
        exchange::add(report, variant.name, &rounds, None);
        let over = format!("{}_over_create", variant.name);
        let over = Measurement::spread("api", over, rounds.ratio(Outcome::server_cpu_us), "creates");
        report.add(match variant.goal {
            Some(goal) => over.goal(goal),
            None => over,
        });
    }
    server.stop().await
}

fn variants() -> [WriteVariant; 4] {
    let path = |name: &str| format!("{}/{name}-########", objects::CONFIG_MAPS);
    let applied = format!("{}?fieldManager=bench&force=true", path("apply"));
    let applied_again = format!("{}?fieldManager=bench&force=true", path("there"));
    let patch =
        json!({"metadata": {"labels": {"tier": "frontend"}}, "data": {"added": "########"}}).to_string();
    [
        WriteVariant {
            name: "apply_new_configmap",
            template: Template::with_encoding(
                "PATCH",
                &applied,
                request::APPLY,
                objects::config_map("apply").as_bytes(),
            ),
            status: 201,
            changes: false,
            goal: Some(Goal::AtMost(3.0)),
        },
        WriteVariant {
            name: "apply_configmap",
            template: Template::with_encoding(
                "PATCH",
                &applied_again,
                request::APPLY,
                objects::config_map("there").as_bytes(),
            ),
            status: 200,
            changes: true,
            goal: Some(Goal::AtMost(3.0)),
        },
        WriteVariant {
            name: "strategic_patch_configmap",
            template: Template::with_encoding("PATCH", &path("there"), request::STRATEGIC, patch.as_bytes()),
            status: 200,
            changes: true,
            goal: None,
        },
        WriteVariant {
            name: "create_configmap_protobuf",
            template: Template::with_encoding(
                "POST",
                objects::CONFIG_MAPS,
                Encoding::PROTOBUF,
                &objects::config_map_message("binary"),
            ),
            status: 201,
            changes: false,
            goal: None,
        },
    ]
}
