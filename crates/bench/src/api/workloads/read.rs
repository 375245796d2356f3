//! Gets of single objects, at the latest revision.

use anyhow::Result;

use super::exchange::{self, Exchange};
use crate::{
    api::{
        Setting,
        load::{self, Load},
        objects,
        request::Template,
        server::{Server, ServerComponents, new_dir},
    },
    paired_rounds::PairedRounds,
    report::{Goal, Report},
};

/// The number of objects that the gets address.
const OBJECTS: u64 = 5_000;

pub(crate) async fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let dir = new_dir(setting)?;
    let null = Server::null(dir.path()).await?;
    let server = Server::setpoint(setting, dir.path(), ServerComponents::ApiOnly).await?;
    let goal = Some(Goal::AtMost(27.0));
    let kinds = [
        (
            "get_configmap",
            objects::CONFIG_MAPS,
            objects::config_map("get"),
            goal,
        ),
        ("get_pod", objects::PODS, objects::pod("get"), None),
    ];
    for (name, path, body, goal) in kinds {
        let create = Template::with_body("POST", path, &body);
        let mut load = Load {
            clients: setting.clients,
            operations: OBJECTS,
            first: 0,
        };
        load::apply(&server, &load, |_| Exchange::new(create.clone(), 201)).await?;
        load.operations = setting.full_or_quick(40_000, 10_000);
        let get = Template::without_body("GET", &format!("{path}/get-########"));
        let mut rounds = PairedRounds::default();
        for _ in 0..setting.rounds {
            rounds
                .baseline
                .push(load::apply(&null, &load, |_| Exchange::new(get.clone(), 200).among(OBJECTS)).await?);
            rounds
                .subject
                .push(load::apply(&server, &load, |_| Exchange::new(get.clone(), 200).among(OBJECTS)).await?);
        }
        exchange::add(report, name, &rounds, goal);
    }
    server.stop().await
}
