console.log("the front end");
