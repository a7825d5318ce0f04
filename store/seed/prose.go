package seed

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// profiles are the users of the demo blog.
var profiles = []struct{ username, displayName, bio string }{
	{"ada", "Ada Winter", "Writes about engines that do not exist yet."},
	{"grace", "Grace Miller", "Compilers, ships, and nanoseconds cut to length."},
	{"alan", "Alan Rivers", "Runs long distances. Halting is another question."},
	{"barbara", "Barbara Stone", "Types that keep their promises."},
	{"claude", "Claude Field", "Information, juggling and unicycles."},
	{"dorothy", "Dorothy Hill", "From desk calculators to FORTRAN."},
	{"edsger", "Edsger Marsh", "Writes by hand, and numbers every note."},
	{"frances", "Frances Brook", "Makes slow programs fast."},
	{"guido", "Guido Lane", "Readability counts."},
	{"hedy", "Hedy Wood", "Hops frequencies after work."},
	{"ivan", "Ivan Ford", "Draws on screens."},
	{"jean", "Jean Bell", "Programmed a room full of cables."},
	{"katherine", "Katherine Carter", "Computes trajectories, and checks the computer."},
	{"linus", "Linus Holm", "Merges, mostly."},
	{"margaret", "Margaret Gray", "Software that lands."},
	{"niklaus", "Niklaus Weber", "As simple as possible."},
	{"ole-johan", "Ole-Johan Berg", "Objects, classes and simulation."},
	{"peter", "Peter Lund", "Programming as theory building."},
	{"radia", "Radia Moss", "Trees that span networks."},
	{"shafi", "Shafi Shore", "Proves things without telling."},
	{"tim", "Tim Park", "Links everything."},
	{"ursula", "Ursula Glass", "Technology as practice."},
	{"vint", "Vint Cole", "Packets, on this planet and others."},
	{"wilhelmina", "Wilhelmina Frost", "Classifies stars by their spectra."},
	{"zelda", "Zelda Marlow", "Reads every comment."},
}

// topic is the subject of posts, with the texts about it.
type topic struct {
	titles     []string
	sentences  []string
	agreement  []string
	questions  []string
	particular []string // fills %s in titles and sentences
	tags       []string
}

var topics = []topic{
	{
		titles: []string{"What %s taught me about bread", "A slow loaf from %s", "Baking with %s on a weekday",
			"The crumb, the crust and %s"},
		sentences: []string{
			"The dough wants to be left alone far longer than the recipe admits.",
			"I weigh everything now, because a cup of flour is a different thing every day.",
			"With %s the crust comes out darker and the crumb stays soft for two days.",
			"A cold night in the refrigerator does more for flavour than any amount of kneading.",
			"My first six loaves were bricks, and the birds in the garden were very happy.",
			"Steam in the first ten minutes decides whether the loaf opens or splits.",
			"You learn to judge it by the way the surface trembles when you nudge the bowl.",
			"Old bread is not waste: it makes the best soup of the week.",
			"The smell at six in the morning is reason enough to keep a starter alive.",
		},
		agreement: []string{"Mine finally rose after I stopped opening the oven.",
			"The tip about steam alone was worth it."},
		questions:  []string{"How warm is your kitchen in winter?", "Does this work without a cast-iron pot?"},
		particular: []string{"rye", "spelt", "an old starter", "einkorn", "wet dough", "oat porridge"},
		tags:       []string{"bread", "kitchen"},
	},
	{
		titles: []string{"Notes from a walk along %s", "%s before breakfast", "Getting lost near %s",
			"Why I keep returning to %s"},
		sentences: []string{
			"We set out before the fog had lifted, with more sandwiches than sense.",
			"The path follows %s for an hour and then simply stops at a gate.",
			"A heron stood in the shallows and ignored us with great dignity.",
			"By noon the wind had turned and the map had become an opinion.",
			"There is a bench at the top where somebody has carved the year 1931.",
			"My knees complained on the way down, as they have earned the right to.",
			"Nothing was spectacular, and that was exactly what I had come for.",
			"The bus back was late, so we watched the light go from gold to grey.",
			"I took no photographs and remember more of it than of any other day.",
		},
		agreement: []string{"I know that bench! It faces the wrong way and is perfect.",
			"You made me put my boots by the door."},
		questions: []string{"Is the gate open again after the flood?", "How long did the whole loop take you?"},
		particular: []string{"the canal", "the north shore", "the old railway", "Hollow Lane", "the marsh",
			"the quarry"},
		tags: []string{"walking", "outdoors"},
	},
	{
		titles: []string{"Deleting %s made everything faster", "A small theory of %s", "%s, explained to my past self",
			"What I got wrong about %s"},
		sentences: []string{
			"For years I treated %s as a detail, and details always send an invoice.",
			"The profile showed one function at the top, and it was the one nobody had touched.",
			"We wrote the test first, mostly because none of us believed the bug report.",
			"A program is read by tired people, so write it for them.",
			"The fix was three lines; finding them took a week and a whiteboard.",
			"Copying the data once, at the right moment, saved us a join on every request.",
			"Whatever can be derived should not be stored, unless reading it is the whole job.",
			"I now ask of every abstraction who its second user is going to be.",
			"It failed on a Friday evening, which is how one finds out about retries.",
			"When two copies disagree, somebody must be allowed to be right.",
		},
		agreement: []string{"The second user question is going on our wall.",
			"We removed ours last month and nobody noticed."},
		questions: []string{"Did you measure before and after on the same machine?",
			"What would you do about the retries today?"},
		particular: []string{"caching", "pagination", "the message queue", "naming", "time zones", "the build"},
		tags:       []string{"programming"},
	},
	{
		titles: []string{"Reading %s on the night train", "A second look at %s", "%s and the art of the footnote",
			"Ten pages of %s a day"},
		sentences: []string{
			"I bought it for the cover and stayed for the footnotes.",
			"There is a chapter on %s in the middle that could stand alone.",
			"The author trusts the reader, and that turns out to be rare.",
			"Some books are better at forty than at twenty, and this is one of them.",
			"I underlined a sentence on nearly every page, and then the pencil broke.",
			"The translation is careful, though the jokes had to be left at the border.",
			"My neighbour on the train read over my shoulder and asked me to turn back a page.",
			"It ends in the middle of a conversation, as it should.",
			"If you read only one part, read the letters at the end.",
		},
		agreement: []string{"The letters made me miss my stop.", "Same pencil, same fate."},
		questions: []string{"Which translation did you read?", "Would you give it to somebody who hates footnotes?"},
		particular: []string{"sea stories", "a book of letters", "the old essays", "a detective novel", "short poems",
			"travel diaries"},
		tags: []string{"books"},
	},
	{
		titles: []string{"The garden in a year of %s", "Making peace with %s", "%s, against all advice",
			"What grows next to %s"},
		sentences: []string{
			"Everybody warned me about %s, and everybody was nearly right.",
			"The tomatoes sulked until the middle of July and then would not stop.",
			"I have given up on straight lines; the bees never asked for them.",
			"A bucket under the gutter is the best tool I own.",
			"The slugs hold their meetings after rain, and I attend with a torch.",
			"What looked dead in March was only thinking it over.",
			"My grandmother planted by the moon and harvested more than I do by the calendar.",
			"Leave one corner alone and see who moves in.",
			"The neighbours get the surplus, and I get their stories.",
		},
		agreement:  []string{"The corner we left alone now has a hedgehog.", "July sulkers here as well."},
		questions:  []string{"What do you do against the slugs once you have met them?", "Is it too late to sow now?"},
		particular: []string{"drought", "mint", "runner beans", "clay soil", "late frost", "nettles"},
		tags:       []string{"garden", "outdoors"},
	},
	{
		titles: []string{"Learning %s at forty-five", "Scales, doubt and %s", "A month of %s",
			"Playing %s badly in public"},
		sentences: []string{
			"I practise for twenty minutes a day, which the calendar insists is two hours a week.",
			"My teacher says that %s is mostly listening with your hands.",
			"The metronome is the most honest colleague I have ever had.",
			"On Thursday something clicked, and on Friday it was gone again.",
			"We played for six people and a dog, and the dog stayed to the end.",
			"Slow is the only speed at which anything is learned.",
			"I recorded myself once, and will do it again when I am braver.",
			"There is a bar in the second movement where everything suddenly makes sense.",
			"Being a beginner is a holiday from being competent.",
		},
		agreement:  []string{"A holiday from being competent: I am stealing that.", "The dog has taste."},
		questions:  []string{"How did you find your teacher?", "Do you practise in the morning or at night?"},
		particular: []string{"the cello", "jazz piano", "the accordion", "choir singing", "the viola", "fingerpicking"},
		tags:       []string{"music", "learning"},
	},
}

var remarks = []string{
	"Thank you for writing this down.",
	"I read it twice, and it got better.",
	"This is the kind of post I come here for.",
	"I had the opposite experience, and now I wonder why.",
	"Saved for the weekend.",
	"More of this, please.",
	"You put into words what I have been mumbling for years.",
	"Came for the title, stayed for the last paragraph.",
}

// sentences is the most sentences of a post, so that its item has at most 1 KB and costs 1 RU to read, like
// the article's.
const sentences = 6

// post returns a post in paragraphs of distinct sentences.
func (t *topic) post(f *rand.Rand) (title, content string) {
	subject := oneOf(f, t.particular)
	fill := func(s string) string {
		if strings.Contains(s, "%s") {
			s = fmt.Sprintf(s, subject)
		}
		return strings.ToUpper(s[:1]) + s[1:]
	}
	said := append([]string(nil), t.sentences...)
	f.Shuffle(len(said), func(i, j int) { said[i], said[j] = said[j], said[i] })
	var b strings.Builder
	for i, s := range said[:3+upTo(f, sentences-3)] {
		switch {
		case i == 0:
		case i%3 == 0:
			b.WriteString("\n\n")
		default:
			b.WriteByte(' ')
		}
		b.WriteString(fill(s))
	}
	return fill(oneOf(f, t.titles)), b.String()
}

// comment returns a comment on a post of the topic.
func (t *topic) comment(f *rand.Rand) string {
	switch f.IntN(6) {
	case 0:
		return oneOf(f, t.questions)
	case 1:
		return oneOf(f, t.agreement)
	case 2:
		return oneOf(f, remarks) + " " + oneOf(f, t.questions)
	}
	return oneOf(f, remarks)
}

// oneOf returns a random text.
func oneOf(f *rand.Rand, texts []string) string { return texts[upTo(f, len(texts)-1)] }
