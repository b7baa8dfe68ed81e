// All elements: importing this makes them known to the page.

import "./atlas.js";
import "./corpus.js";
import "./flow.js";
import "./head.js";
import "./heads.js";
import "./lab.js";
import "./lens.js";
import "./lesson.js";
import "./model.js";
import "./shift.js";
import "./sources.js";
import "./steps.js";
import "./text.js";
import "./training.js";
