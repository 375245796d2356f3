//! Runs cases: setup, steps in order, cleanup.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::Outcome;
use super::body;
use super::case::{Case, Step};
use super::own_namespaces::{own_namespaces, retain_own};
use crate::compare::{self, Difference};
use crate::normalize::{NormalizedResponse, Normalizer};
use crate::time;
use crate::wire::{Client, Endpoint, Response};

/// Runs cases against one server. Setup steps marked `once` run only once per runner.
#[derive(Debug)]
pub struct Runner {
    client: Client,
    done: HashSet<String>,
}

const SETUP_RETRY_INTERVAL: Duration = Duration::from_millis(50);
const STEP_RETRY_INTERVAL: Duration = Duration::from_millis(100);

impl Runner {
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            client: Client::new(endpoint),
            done: HashSet::new(),
        }
    }

    /// Runs a case; a broken connection fails the case, not the run.
    pub(super) fn outcome(&mut self, case: &Case, ignored: &[String]) -> Outcome {
        let differences = match self.run(case) {
            Ok(responses) => differences(case, &responses, ignored),
            Err(error) => vec![(String::new(), broken(&error))],
        };
        Outcome {
            id: case.id.clone(),
            area: case.area.clone(),
            differences,
        }
    }

    /// The normalized responses to the steps of a case.
    pub fn run(&mut self, case: &Case) -> Result<Vec<NormalizedResponse>> {
        for step in &case.setup {
            self.set_up(step)?;
        }
        let mut responses = Vec::new();
        let normalized = self.steps(case, &mut responses);
        for step in &case.cleanup {
            // The object may have been deleted already.
            let _ = self.send(step, &responses);
            self.wait_for_caches(step);
        }
        normalized
    }

    /// Reads the collection that a step has changed. Admission reads objects from caches, which may lag behind a write; a
    /// consistent list waits until they have it. Without it a later step may see an object that is deleted.
    fn wait_for_caches(&mut self, step: &Step) {
        let list = Step {
            method: "GET".to_owned(),
            path: collection(step),
            headers: step.headers.clone(),
            ..Step::default()
        };
        // A collection that cannot be listed has nothing to wait for.
        let _ = self.send(&list, &[]);
    }

    fn set_up(&mut self, step: &Step) -> Result<()> {
        let key = format!("{step:?}");
        if step.once && self.done.contains(&key) {
            return Ok(());
        }
        let is_done = |response: &Response| response.status < 300 || response.status == 409;
        self.send_until(step, &[], SETUP_RETRY_INTERVAL, is_done)?;
        self.wait_for_caches(step);
        self.done.insert(key);
        time::sleep(Duration::from_millis(step.wait_ms));
        Ok(())
    }

    fn steps(&mut self, case: &Case, responses: &mut Vec<Value>) -> Result<Vec<NormalizedResponse>> {
        let mut normalizer = Normalizer::new(time::timestamp());
        let mut normalized = Vec::new();
        for step in &case.steps {
            let mut response = self.step(step, responses, &mut normalizer)?;
            responses.push(std::mem::take(&mut response.raw));
            if response.body.is_object() {
                for path in &step.mask {
                    body::set(&mut response.body, path, json!("<masked>"))?;
                }
            }
            if step.status_only {
                response.body = Value::Null;
            }
            normalized.push(response);
        }
        Ok(normalized)
    }

    fn step(
        &mut self,
        step: &Step,
        responses: &[Value],
        normalizer: &mut Normalizer,
    ) -> Result<NormalizedResponse> {
        time::sleep(Duration::from_millis(step.wait_ms));
        normalizer.note_generate_names(step.body.as_deref().unwrap_or_default());
        let expected = step.expect.as_ref().map(|expect| expect.status);
        let is_expected = |response: &Response| expected.is_none_or(|expected| expected == response.status);
        let response = self.send_until(step, responses, STEP_RETRY_INTERVAL, is_expected)?;
        if step.method == "DELETE" {
            self.wait_for_caches(step);
        }
        Ok(normalizer.normalize(&response, step.is_watch()))
    }

    /// Repeats a request until the response is the expected one or the step's retry time is over.
    fn send_until(
        &mut self,
        step: &Step,
        responses: &[Value],
        pause: Duration,
        is_expected: impl Fn(&Response) -> bool,
    ) -> Result<Response> {
        let timeout = Duration::from_millis(step.retry_ms);
        let start = time::now();
        loop {
            let response = self.send(step, responses)?;
            if is_expected(&response) || start.elapsed() >= timeout {
                return Ok(response);
            }
            time::sleep(pause);
        }
    }

    fn send(&mut self, step: &Step, responses: &[Value]) -> Result<Response> {
        Ok(self.client.send(&body::request(step, responses)?)?)
    }
}

/// The path of the collection that a step changes, with a query for one object.
fn collection(step: &Step) -> String {
    let path = step.path.split('?').next().unwrap_or_default();
    let collection = match step.method.as_str() {
        "POST" => path,
        _ => path.rsplit_once('/').map_or(path, |(collection, _)| collection),
    };
    format!("{collection}?limit=1")
}

fn differences(
    case: &Case,
    responses: &[NormalizedResponse],
    ignored: &[String],
) -> Vec<(String, Difference)> {
    let mut all = Vec::new();
    let own = own_namespaces(case);
    let mut normalizer = Normalizer::new(time::timestamp());
    for (number, (step, response)) in case.steps.iter().zip(responses).enumerate() {
        normalizer.note_generate_names(step.body.as_deref().unwrap_or_default());
        let Some(expect) = &step.expect else { continue };
        let location = format!("step {number} {} {}", step.method, step.path);
        let mut expected = expect.to_response();
        expected.body = normalizer.recorded(&expected.body);
        let mut actual = response.clone();
        for body in [&mut expected.body, &mut actual.body] {
            retain_own(step, &own, body);
        }
        let differences = compare::responses(&expected, &actual, ignored);
        all.extend(
            differences
                .into_iter()
                .map(|difference| (location.clone(), difference)),
        );
    }
    all
}

fn broken(error: &anyhow::Error) -> Difference {
    Difference {
        path: "/".to_owned(),
        expected: json!("a response"),
        actual: json!(format!("{error:#}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &str, path: &str, expected: &str) {
        let step = Step {
            method: method.to_owned(),
            path: path.to_owned(),
            ..Step::default()
        };
        assert_eq!(collection(&step), expected);
    }

    #[test]
    fn the_collection_of_a_created_or_deleted_object_is_listed() {
        check("POST", "/api/v1/namespaces", "/api/v1/namespaces?limit=1");
        check(
            "DELETE",
            "/apis/apps/v1/namespaces/a/deployments/web?gracePeriodSeconds=0",
            "/apis/apps/v1/namespaces/a/deployments?limit=1",
        );
    }
}
