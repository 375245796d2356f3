//! Whatever is asked of a Deployment while it rolls out, and however slowly its pods come up.

use proptest::prelude::*;

use super::*;

/// What somebody does to the Deployment between two steps.
#[derive(Debug, Clone, Copy)]
enum Edit {
    Image(u8),
    Replicas(i32),
    Paused(bool),
}

/// A Deployment, its sets, and pods that come up in their own time.
#[derive(Debug)]
struct World {
    deployment: Deployment,
    sets: Vec<ReplicaSet>,
    /// How many sets have ever been made.
    made: i64,
}

fn some_edit() -> impl Strategy<Value = Option<Edit>> {
    prop_oneof![
        12 => Just(None),
        2 => (0..4u8).prop_map(|image| Some(Edit::Image(image))),
        2 => (0..12i32).prop_map(|replicas| Some(Edit::Replicas(replicas))),
        1 => any::<bool>().prop_map(|paused| Some(Edit::Paused(paused))),
    ]
}

fn some_words() -> impl Strategy<Value = String> {
    let portion = prop_oneof![
        (0..5i32).prop_map(|count| count.to_string()),
        Just("25%".to_owned()),
        Just("100%".to_owned())
    ];
    let rolling = (portion.clone(), portion)
        .prop_map(|(surge, unavailable)| format!("surge={surge} unavailable={unavailable}"));
    let strategy = prop_oneof![4 => rolling, 1 => Just("recreate".to_owned())];
    (0..12i32, 0..3i32, strategy)
        .prop_map(|(replicas, history, strategy)| format!("replicas={replicas} history={history} {strategy}"))
}

impl World {
    fn new(words: &str) -> Self {
        Self {
            deployment: deployment(words),
            sets: Vec::new(),
            made: 0,
        }
    }

    fn edit(&mut self, edit: Edit) {
        let spec = &mut self.deployment.spec;
        match edit {
            Edit::Image(image) => {
                let containers = &mut spec.template.spec.as_mut().unwrap().containers;
                containers[0].image = Some(format!("image-{image}"));
            }
            Edit::Replicas(replicas) => spec.replicas = Some(replicas),
            Edit::Paused(paused) => spec.paused = Some(paused),
        }
        *self.deployment.metadata.generation.as_mut().unwrap() += 1;
    }

    /// The pods that are wanted in all.
    fn wanted(&self) -> i32 {
        self.sets.iter().map(replicas).sum()
    }

    /// The pods that are available and not about to go.
    fn available(&self) -> i32 {
        self.sets
            .iter()
            .map(|set| available(set).min(replicas(set)))
            .sum()
    }

    fn plan(&self) -> Plan {
        let (_, olds) = sets::split(&self.deployment, &self.sets);
        let pods = |set: &ReplicaSet| set.status.as_ref().map_or(0, |status| status.replicas);
        plan(&self.deployment, &self.sets, || {
            olds.iter().any(|old| pods(old) > 0)
        })
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Nothing => {}
            Step::Create(mut set) => {
                self.made += 1;
                let time = jiff::Timestamp::from_second(1_000_000 + self.made).unwrap();
                set.metadata.creation_timestamp = Some(Time(time));
                set.status = Some(ReplicaSetStatus::default());
                self.sets.push(*set);
            }
            Step::Amend(set) => self.put(*set),
            Step::Resize(resized) => resized.into_iter().for_each(|(_, set)| self.put(set)),
            Step::Clean(going) => self
                .sets
                .retain(|set| going.iter().all(|gone| gone.metadata.name != set.metadata.name)),
        }
    }

    fn put(&mut self, set: ReplicaSet) {
        let at = self
            .sets
            .iter()
            .position(|own| own.metadata.name == set.metadata.name);
        self.sets[at.unwrap()] = set;
    }

    /// Sets bring their pods to the number that is wanted, those that do not work first; as many come up as luck has it.
    fn live(&mut self, luck: i32) {
        for set in &mut self.sets {
            let wanted = replicas(set);
            let status = set.status.get_or_insert_default();
            let up = status.available_replicas.unwrap_or(0);
            status.replicas = wanted;
            status.available_replicas = Some((up + luck).min(wanted));
        }
        self.tell();
    }

    fn tell(&mut self) {
        let (new, _) = sets::split(&self.deployment, &self.sets);
        let status = DeploymentStatus {
            replicas: Some(self.wanted()),
            updated_replicas: Some(new.map_or(0, replicas)),
            available_replicas: Some(self.available()),
            observed_generation: self.deployment.metadata.generation,
            ..DeploymentStatus::default()
        };
        self.deployment.status = Some(status);
    }
}

/// No step asks for more than the surge allows, and none takes away what must stay available.
fn check_step(before: &World, plan: &Plan, after: &World) -> Result<(), TestCaseError> {
    let bounds = bounds(&before.deployment);
    let most = before.wanted().max(bounds.most());
    prop_assert!(
        after.wanted() <= most,
        "{} pods are wanted: {}",
        after.wanted(),
        shown(&plan.step)
    );
    let is_rolling = is_rolling(&before.deployment) && plan.telling == Telling::Rollout;
    let fewest = before.available().min(bounds.fewest_available());
    prop_assert!(
        !is_rolling || after.available() >= fewest,
        "{} pods are available: {}",
        after.available(),
        shown(&plan.step)
    );
    Ok(())
}

/// Where pods of two templates must not run at once, no new one comes while an old one is there.
fn check_apart(world: &World) -> Result<(), TestCaseError> {
    let with_pods = world.sets.iter().filter(|set| replicas(set) > 0);
    let is_paused = world.deployment.spec.paused == Some(true);
    prop_assert!(is_rolling(&world.deployment) || is_paused || with_pods.count() <= 1);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_rollout_stays_in_its_bounds_and_converges(
        words in some_words(),
        edits in prop::collection::vec(some_edit(), 0..60),
        luck in prop::collection::vec(0..4i32, 1..20),
    ) {
        let mut world = World::new(&words);
        for round in 0..400 {
            if let Some(edit) = edits.get(round).copied().flatten() {
                world.edit(edit);
            }
            if round == edits.len() {
                world.edit(Edit::Paused(false));
            }
            let before = World { deployment: world.deployment.clone(), sets: world.sets.clone(), made: world.made };
            let plan = world.plan();
            world.take(plan.step.clone());
            check_step(&before, &plan, &world)?;
            check_apart(&world)?;
            world.live(luck[round % luck.len()].max(i32::from(round > 200)));
        }
        prop_assert_eq!(shown(&world.plan().step), "nothing");
        let (new, olds) = sets::split(&world.deployment, &world.sets);
        let wanted = world.deployment.spec.replicas.unwrap();
        prop_assert_eq!(new.map(replicas), Some(wanted));
        prop_assert!(olds.iter().all(|old| replicas(old) == 0));
        let kept = world.deployment.spec.revision_history_limit.unwrap();
        prop_assert!(olds.len() <= usize::try_from(kept).unwrap(), "{} old sets", olds.len());
    }
}
